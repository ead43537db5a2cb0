// SPDX-License-Identifier: Apache-2.0
// netlink requests reach the named namespace's kernel, whatever the namespace of this process.
import { closeSync, fstatSync, openSync } from "node:fs";
import { createNetlink } from "@patchbay/os";
import { describeNetlinkContract } from "@patchbay/podnet/testing";
import { run } from "@patchbay/support";
import { PREFIX } from "./links.ts";

describeNetlinkContract("of the kernel", () => {
  const name = `${PREFIX}-talk`;
  run("ip", "netns", "add", name);
  const fd = openSync(`/run/netns/${name}`, "r");
  return Promise.resolve({
    netlink: createNetlink(),
    netns: { fd, inode: String(fstatSync(fd).ino) },
    closed: { fd: 987_654, inode: "0" },
    close: () => {
      closeSync(fd);
      run("ip", "netns", "del", name);
      return Promise.resolve();
    },
  });
});
