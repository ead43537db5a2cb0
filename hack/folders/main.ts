// SPDX-License-Identifier: Apache-2.0
// Names folders of the repository that hold too many files, and fails when there are any.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { FILES_MAX, findCrowdedFolders } from "./crowded.ts";

// Also files that are not committed yet; files that are deleted and not committed are counted, too.
const listed = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], {
  cwd: join(import.meta.dirname, "../.."),
  encoding: "utf8",
});
const crowded = findCrowdedFolders([...new Set(listed.split("\n"))]);
for (const { folder, files } of crowded) {
  console.error(
    `${folder} holds ${String(files)} files; ${String(FILES_MAX)} at most: give it floors`,
  );
}
if (crowded.length === 0) console.log(`no folder holds more than ${String(FILES_MAX)} files`);
else process.exitCode = 1;
