// SPDX-License-Identifier: Apache-2.0
//
// The data of the page (DATA.md), and its blocks of numbers.

export function readData(source = document) {
  const script = source.getElementById("cep-data");
  return script ? JSON.parse(script.textContent) : null;
}

function bytesOfBase64(text) {
  const packed = atob(text);
  const bytes = new Uint8Array(packed.length);
  for (let index = 0; index < packed.length; index += 1) bytes[index] = packed.charCodeAt(index);
  return bytes;
}

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** High bytes first, then low bytes. */
function joinPlanes(bytes) {
  const count = bytes.length / 2;
  const codes = new Uint16Array(count);
  for (let index = 0; index < count; index += 1) codes[index] = (bytes[index] << 8) | bytes[count + index];
  return codes;
}

// Where a block spans so much, its least code is as good as zero.
const ZERO_SPAN = 999;

/** The values that codes stand for; NaN for code 0, "missing". */
function valuesOfCodes({ bits, low, high }) {
  const count = 2 ** bits;
  const values = new Float64Array(count);
  values[0] = NaN;
  for (let code = 1; code < count; code += 1) values[code] = low * (high / low) ** ((code - 1) / (count - 2));
  if (high / low > ZERO_SPAN) values[1] = 0;
  return values;
}

/** {rows, columns, codes, values, exact}: values[codes[row * columns + column]] is a cell's value. */
async function decode(block) {
  const packed = bytesOfBase64(block.data);
  const bytes = block.encoding === "deflate" ? await inflate(packed) : packed;
  const codes = block.bits === 16 ? joinPlanes(bytes) : bytes;
  if (codes.length !== block.rows * block.columns) throw new Error("a block of the data has another size than it says");
  return { rows: block.rows, columns: block.columns, codes, values: valuesOfCodes(block), exact: block.bits === 16 };
}

const decoded = new WeakMap();

/** Each block is decoded once. */
export function decodeBlock(block) {
  if (!decoded.has(block)) decoded.set(block, decode(block));
  return decoded.get(block);
}

/** The values of a block with one column, null where there is no such block. */
export async function columnOf(block) {
  if (!block) return null;
  const { codes, values } = await decodeBlock(block);
  return Float64Array.from(codes, (code) => values[code]);
}

/** "rank 5", and its host and role as far as they tell it from others. */
export function describeRank(data, index) {
  const { rank, host, role } = data.ranks;
  return {
    rank: `rank ${rank[index]}`,
    host: data.hosts[host[index]] || "",
    role: data.roles.length > 1 ? data.roles[role[index]] : "",
  };
}

/** "rank 5 · node0 · stage 1" */
export function rankWithPlace(data, index) {
  const { rank, host, role } = describeRank(data, index);
  return [rank, host, role].filter(Boolean).join(" · ");
}
