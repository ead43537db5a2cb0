// SPDX-License-Identifier: Apache-2.0
import type { LinkCounts } from "@patchbay/core/metrics";
import { createFakeLinkCounters } from "../fakes/link-counters.ts";
import { describeLinkCountersContract } from "./link-counters.ts";

const NOTHING = { bytes: 0, packets: 0, errors: 0, dropped: 0 };

describeLinkCountersContract("in memory", () => {
  const counters = createFakeLinkCounters();
  const [netns, other] = [
    { fd: -1, inode: "1" },
    { fd: -1, inode: "2" },
  ];
  const one: LinkCounts = { name: "one", received: NOTHING, transmitted: NOTHING };
  counters.put("1", one);
  counters.put("2", one);
  return Promise.resolve({
    counters,
    netns,
    other,
    closed: { fd: -1, inode: "3" },
    send: ({ inode }, packets, bytes) => {
      counters.put(inode, { ...one, transmitted: { ...NOTHING, packets, bytes } });
    },
    close: () => Promise.resolve(),
  });
});
