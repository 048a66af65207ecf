// SPDX-License-Identifier: Apache-2.0
//
// node import_trace.js CATAPULT.js TRACE: what Catapult's trace viewer takes a trace for, as JSON. trace_viewer.py makes
// the first file from a checkout.
'use strict';

const fs = require('fs');
const vm = require('vm');

// The environment without a page, for which Catapult's own tests are run too.
Object.assign(global, {isVinn: true, self: global, window: global});
vm.runInThisContext(fs.readFileSync(process.argv[2], 'utf8'), {filename: 'catapult.js'});

const model = new tr.Model();
const options = new tr.importer.ImportOptions();
options.showImportWarnings = false;
options.shiftWorldToZero = false;
new tr.importer.Import(model, options).importTraces([fs.readFileSync(process.argv[3], 'utf8')]);

const found = {warnings: model.importWarnings.map(({type, message}) => `${type}: ${message}`),
  processes: [], threads: [], slices: [], marks: [], counters: [], flows: []};
const placeOfSlice = new Map();

function depthOf(slice) {
  let depth = 0;
  for (let parent = slice.parentSlice; parent; parent = parent.parentSlice) ++depth;
  return depth;
}

for (const process of Object.values(model.processes)) {
  found.processes.push({pid: process.pid, name: process.name, sort: process.sortIndex});
  for (const mark of process.instantEvents) {
    found.marks.push({pid: process.pid, name: mark.title, start: mark.start, args: mark.args});
  }
  for (const counter of Object.values(process.counters)) {
    for (const series of counter.series) {
      for (const sample of series.samples) {
        found.counters.push({pid: process.pid, name: counter.name, start: sample.timestamp, value: sample.value});
      }
    }
  }
  for (const thread of Object.values(process.threads)) {
    found.threads.push({pid: process.pid, tid: thread.tid, name: thread.name, sort: thread.sortIndex});
    for (const slice of thread.sliceGroup.slices) {
      placeOfSlice.set(slice.guid, found.slices.length);
      found.slices.push({pid: process.pid, tid: thread.tid, name: slice.title, category: slice.category,
        start: slice.start, duration: slice.duration, depth: depthOf(slice), args: slice.args,
        unfinished: Boolean(slice.didNotFinish)});
    }
    for (const slice of thread.sliceGroup.slices) {
      const parent = slice.parentSlice;
      found.slices[placeOfSlice.get(slice.guid)].parent = parent ? placeOfSlice.get(parent.guid) : null;
    }
  }
}
for (const flow of model.flowEvents) {
  found.flows.push({from: placeOfSlice.get(flow.startSlice.guid), to: placeOfSlice.get(flow.endSlice.guid)});
}
process.stdout.write(JSON.stringify(found));
