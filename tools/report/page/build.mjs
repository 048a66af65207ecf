// SPDX-License-Identifier: Apache-2.0
//
// node build.mjs OUTPUT.js [DEPFILE]: bundles src/main.js into one minified script. The same sources give the same bytes on
// every machine.
import { readFileSync, realpathSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const LARGEST_BUNDLE = 150 * 1024;

const page = dirname(realpathSync(fileURLToPath(import.meta.url)));
const [output, depfile] = process.argv.slice(2);

/** The notice that the licences of what is bundled ask for. */
function notices() {
  const { version } = JSON.parse(readFileSync(join(page, "node_modules/uplot/package.json"), "utf8"));
  const licence = readFileSync(join(page, "node_modules/uplot/LICENSE"), "utf8").trim();
  return `/* SPDX-License-Identifier: Apache-2.0\n\nWith uPlot ${version}:\n${licence.replaceAll("*/", "* /")} */`;
}

async function bundle() {
  const result = await build({
    absWorkingDir: page,
    entryPoints: ["src/main.js"],
    bundle: true,
    minify: true,
    write: false,
    metafile: true,
    format: "iife",
    target: "es2020",
    charset: "ascii",
    legalComments: "none",
    loader: { ".css": "text" },
    plugins: [minifiedCss],
    banner: { js: notices() },
    logLevel: "warning",
  });
  return { script: result.outputFiles[0].text, inputs: Object.keys(result.metafile.inputs) };
}

/** Style sheets become strings, as small as esbuild makes them. */
const minifiedCss = {
  name: "minified-css",
  setup(builder) {
    builder.onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const made = await build({ entryPoints: [path], minify: true, write: false, legalComments: "none" });
      return { contents: made.outputFiles[0].text, loader: "text" };
    });
  },
};

const { script, inputs } = await bundle();
if (/<\/script|<!--/i.test(script)) throw new Error("the bundle would end its own element");
if (/https?:\/\//.test(script)) throw new Error("the bundle names an address");
if (script.length > LARGEST_BUNDLE) {
  throw new Error(`the bundle has ${script.length} bytes, more than ${LARGEST_BUNDLE}`);
}
writeFileSync(output, script);
if (depfile) {
  const files = inputs.map((file) => relative(process.cwd(), join(page, file)).replaceAll(" ", "\\ "));
  writeFileSync(depfile, `${output}: ${files.join(" ")}\n`);
}
