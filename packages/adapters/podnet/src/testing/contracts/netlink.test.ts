// SPDX-License-Identifier: Apache-2.0
import { createFakeNetlink } from "../fakes/netlink.ts";
import { describeNetlinkContract } from "./netlink.ts";

/** A message about the link of index 1. */
const LOOPBACK = Buffer.from(
  "200000001000020000000000000000000000040301000000490001000000000000".slice(0, 64),
  "hex",
);
const RTM_GETLINK = 18;
const ENODEV = 19;
const FORWARDING = ["all", "default", "lo", "tap1"].map((name) => `ipv4/conf/${name}/forwarding:0`);

describeNetlinkContract("in memory", () => {
  const netlink = createFakeNetlink(
    (_protocol, message) => (message[4] === RTM_GETLINK ? { data: LOOPBACK } : { errno: ENODEV }),
    [...FORWARDING, "ipv6/conf/lo/accept_ra:1"],
  );
  netlink.closeNetns("3");
  return Promise.resolve({
    netlink,
    netns: { fd: -1, inode: "1" },
    closed: { fd: -1, inode: "3" },
    close: () => Promise.resolve(),
  });
});
