// SPDX-License-Identifier: Apache-2.0
import { createFakeVolumeDisk } from "../fakes/volume-disk.ts";
import { describeVolumeDiskContract } from "./volume-disk.ts";

describeVolumeDiskContract("in memory", () => {
  const disk = createFakeVolumeDisk();
  const read = (path: string): string | undefined => disk.texts.get(path);
  return Promise.resolve({ disk, directory: "/volumes", read, close: () => Promise.resolve() });
});
