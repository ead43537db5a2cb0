// SPDX-License-Identifier: Apache-2.0
// The fake of files keeps the contract.
import { createFakeFiles } from "../fakes/files.ts";
import { describeFilesContract } from "./files.ts";

describeFilesContract("fake", async () => {
  const files = createFakeFiles();
  await files.ensureDirectory("/state");
  return { files, directory: "/state", close: () => Promise.resolve() };
});
