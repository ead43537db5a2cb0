// SPDX-License-Identifier: Apache-2.0
import { createFakeClaimDisk } from "../fakes/claim-disk.ts";
import { describeClaimDiskContract } from "./claim-disk.ts";

describeClaimDiskContract("in memory", () => {
  const disk = createFakeClaimDisk();
  const isMounted = (directory: string): boolean => disk.mounts.has(directory);
  return Promise.resolve({
    disk,
    directory: "/claims",
    isMounted,
    close: () => Promise.resolve(),
  });
});
