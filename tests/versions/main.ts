// SPDX-License-Identifier: Apache-2.0
// Records what this version stores and sends, for the tests of later versions: hack/record-fixtures VERSION
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { stringify } from "yaml";
import { recordVersion } from "./record.ts";
import { VERSIONS } from "./recorded.ts";

process.umask(0o022);

const [version = ""] = process.argv.slice(2);
if (!/^v\d+\.\d+(\.\d+)?$/.test(version)) throw new Error("record-fixtures VERSION, such as v0.2");
const folder = join(VERSIONS, version);
if (existsSync(folder)) throw new Error(`${folder} exists; a recorded version never changes`);
for (const [path, content] of await recordVersion()) {
  const file = join(folder, path);
  mkdirSync(dirname(file), { recursive: true });
  const text =
    typeof content === "string"
      ? content
      : stringify(content, { lineWidth: 120, aliasDuplicateObjects: false });
  writeFileSync(file, text);
}
console.log(`${folder} is recorded`);
