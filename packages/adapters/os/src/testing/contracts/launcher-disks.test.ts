// SPDX-License-Identifier: Apache-2.0
import { createFakeLauncherDisks } from "../fakes/launcher-disks.ts";
import { describeLauncherDisksContract } from "./launcher-disks.ts";

describeLauncherDisksContract("fake", () => {
  const disks = createFakeLauncherDisks();
  return {
    disks,
    read: (podUid, file) => {
      const bytes = disks.files.get(`${podUid}/${file}`);
      return bytes && new TextDecoder().decode(bytes);
    },
    close: () => undefined,
  };
});
