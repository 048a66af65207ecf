// SPDX-License-Identifier: Apache-2.0
//
// node run_sql.mjs GLOB SPANS.sql QUESTION.sql: prints the answer as a JSON array of objects; whole numbers of 64 bits
// are strings there. Exits with 77 where DuckDB is not installed.
import { readFileSync } from "node:fs";

const [job, spansFile, questionFile] = process.argv.slice(2);

let duckdb;
try {
  duckdb = await import("@duckdb/node-api");
} catch (error) {
  console.error(`skipped: ${error.message}`);
  process.exit(77);
}

const instance = await duckdb.DuckDBInstance.create(":memory:");
const connection = await instance.connect();
await connection.run(`SET VARIABLE job = '${job.replaceAll("'", "''")}'`);
await connection.run(readFileSync(spansFile, "utf8"));
const answer = await connection.runAndReadAll(readFileSync(questionFile, "utf8"));
console.log(JSON.stringify(answer.getRowObjectsJson()));
