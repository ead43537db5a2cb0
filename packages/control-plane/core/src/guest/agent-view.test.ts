// SPDX-License-Identifier: Apache-2.0
// What is known of a guest after answers that differ: nothing is lost by one of them.
import type { IfaceStatus } from "@patchbay/api";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { GuestLink } from "./links.ts";
import {
  restoreGuestView,
  updateGuestView,
  EMPTY_GUEST_VIEW,
  type GuestView,
  computeAgentPollDelayMs,
} from "./agent-view.ts";

const MAC = "02:00:00:00:00:01";
const OTHER_MAC = "02:00:00:00:00:99";

function link(more: Partial<GuestLink> = {}): GuestLink {
  return { mac: MAC, name: "eth0", ipv4: [], ipv6: [], ...more };
}

/** The guest's own. */
function other(last: number, more: Partial<GuestLink> = {}): GuestLink {
  return link({ mac: `06:00:00:00:00:${String(last)}`, name: `veth${String(last)}`, ...more });
}

/** Answers, and the seconds at which they came. */
function after(
  answers: readonly (readonly [number, readonly GuestLink[]])[],
  begin: GuestView = EMPTY_GUEST_VIEW,
): GuestView {
  return answers.reduce(
    (view, [seconds, answer]) =>
      updateGuestView(view, answer, { macs: [MAC], nowMs: seconds * 1000 }),
    begin,
  );
}

function ipv4Of(view: GuestView): readonly string[] | undefined {
  return view.nics.get(MAC)?.ipv4.value;
}

const AGENT_CONNECTED = link({ ipv4: ["10.0.0.1"] });
const EMPTY = link();

describe("addresses of a NIC", () => {
  test.each([
    { name: "are unknown before an answer", answers: [], want: undefined },
    { name: "come from the answer", answers: [[0, [AGENT_CONNECTED]]], want: ["10.0.0.1"] },
    {
      name: "come from the last answer with addresses",
      answers: [
        [0, [AGENT_CONNECTED]],
        [1, [link({ ipv4: ["10.0.0.2", "10.0.0.1"] })]],
      ],
      want: ["10.0.0.2", "10.0.0.1"],
    },
    {
      name: "retain their order if an answer has a different order",
      answers: [
        [0, [link({ ipv4: ["10.0.0.1", "10.0.0.2"] })]],
        [1, [link({ ipv4: ["10.0.0.2", "10.0.0.1"] })]],
      ],
      want: ["10.0.0.1", "10.0.0.2"],
    },
    {
      name: "are retained after an answer without them",
      answers: [
        [0, [AGENT_CONNECTED]],
        [900, [EMPTY]],
        [1800, [EMPTY]],
      ],
      want: ["10.0.0.1"],
    },
    {
      name: "are retained after many empty answers in a short time",
      answers: [[0, [AGENT_CONNECTED]], ...[1, 2, 3, 4, 5, 60].map((at) => [at, [EMPTY]] as const)],
      want: ["10.0.0.1"],
    },
    {
      name: "are removed after three empty answers and a minute",
      answers: [
        [0, [AGENT_CONNECTED]],
        [1, [EMPTY]],
        [2, [EMPTY]],
        [61, [EMPTY]],
      ],
      want: [],
    },
    {
      name: "are retained if an answer in between has them",
      answers: [
        [0, [AGENT_CONNECTED]],
        [1, [EMPTY]],
        [2, [EMPTY]],
        [50, [AGENT_CONNECTED]],
        [61, [EMPTY]],
      ],
      want: ["10.0.0.1"],
    },
    {
      name: "are retained if the answer omits the NIC",
      answers: [
        [0, [AGENT_CONNECTED]],
        [200, [other(1)]],
      ],
      want: ["10.0.0.1"],
    },
    {
      name: "are retained forever if answers have no links at all",
      answers: [[0, [AGENT_CONNECTED]], ...[200, 400, 600, 800].map((at) => [at, []] as const)],
      want: ["10.0.0.1"],
    },
    {
      name: "are not known to be empty after one empty answer",
      answers: [[0, [EMPTY]]],
      want: undefined,
    },
    {
      name: "are known to be empty after three empty answers",
      answers: [
        [0, [EMPTY]],
        [30, [EMPTY]],
        [60, [EMPTY]],
      ],
      want: [],
    },
  ] as const)("$name", ({ answers, want }) => {
    expect(ipv4Of(after(answers))).toEqual(want);
  });

  test("of one family are removed independently of the other family", () => {
    const both = link({ ipv4: ["10.0.0.1"], ipv6: ["fd00::1"] });
    const view = after([
      [0, [both]],
      ...[1, 2, 61].map((at) => [at, [link({ ipv6: ["fd00::1"] })]] as const),
    ]);
    expect([ipv4Of(view), view.nics.get(MAC)?.ipv6.value]).toEqual([[], ["fd00::1"]]);
  });

  test("do not flap, whatever single replies omit", () => {
    const answer = fc.constantFrom([AGENT_CONNECTED], [EMPTY], [other(1)], []);
    fc.assert(
      fc.property(fc.array(fc.tuple(answer, answer), { maxLength: 20 }), (pairs) => {
        let view = after([[0, [AGENT_CONNECTED]]]);
        for (const [index, pair] of pairs.entries()) {
          const answers = [...pair, [AGENT_CONNECTED]].map(
            (links, position) => [index * 300 + position * 100, links] as const,
          );
          view = after(answers, view);
          expect(ipv4Of(view)).toEqual(["10.0.0.1"]);
        }
      }),
    );
  });
});

describe("a NIC", () => {
  test("retains its name after a reply without one", () => {
    const view = after([
      [0, [link()]],
      [1, [{ mac: MAC, ipv4: [], ipv6: [] }]],
    ]);
    expect(view.nics.get(MAC)?.name).toBe("eth0");
  });

  test("is forgotten with its device", () => {
    const view = updateGuestView(after([[0, [AGENT_CONNECTED]]]), [AGENT_CONNECTED], {
      macs: [],
      nowMs: 1000,
    });
    expect(view.nics.size).toBe(0);
    expect(view.otherLinks.map(({ mac }) => mac)).toEqual([MAC]);
  });
});

describe("links that the guest created", () => {
  const names = (view: GuestView): readonly unknown[] => view.otherLinks.map(({ name }) => name);

  test("exclude NICs; links with addresses are listed first, each in the guest's order", () => {
    const view = after([
      [0, [other(1), AGENT_CONNECTED, other(2, { ipv6: ["fd00::1"] }), other(3)]],
    ]);
    expect(names(view)).toEqual(["veth2", "veth1", "veth3"]);
  });

  test("retain their order, and new ones are appended", () => {
    const view = after([
      [0, [other(1), other(2)]],
      [1, [other(3, { ipv4: ["10.0.0.3"] }), other(2), other(1, { ipv4: ["10.0.0.1"] })]],
    ]);
    expect(names(view)).toEqual(["veth1", "veth2", "veth3"]);
  });

  test("survive a reply without them, and are removed after three replies and a minute", () => {
    const first = after([[0, [other(1), other(2)]]]);
    const held = after(
      [1, 2, 60].map((at) => [at, [other(2)]] as const),
      first,
    );
    expect(names(held)).toEqual(["veth1", "veth2"]);
    expect(names(after([[61, [other(2)]]], held))).toEqual(["veth2"]);
  });

  test("are identified by name if they have no MAC", () => {
    const tunnel = { name: "tun0", ipv4: ["10.8.0.1"], ipv6: [] };
    const view = after([
      [0, [tunnel]],
      [1, [{ ...tunnel, name: "tun1" }, tunnel]],
    ]);
    expect(names(view)).toEqual(["tun0", "tun1"]);
  });

  test("become a NIC when the VM gets a NIC with their MAC", () => {
    const view = after([[0, [AGENT_CONNECTED, other(1)]]]);
    const mac = other(1).mac ?? "";
    const next = updateGuestView(view, [AGENT_CONNECTED, other(1)], {
      macs: [MAC, mac],
      nowMs: 1000,
    });
    expect([next.otherLinks, [...next.nics.keys()]]).toEqual([[], [MAC, mac]]);
  });

  test("are limited to 256", () => {
    const many = (from: number): readonly GuestLink[] =>
      Array.from({ length: 200 }, (_, index) => other(from + index));
    const view = after([
      [0, many(0)],
      [1, many(1000)],
    ]);
    expect(view.otherLinks).toHaveLength(256);
  });
});

describe("the restored view", () => {
  const status: IfaceStatus = {
    name: "one",
    mac: MAC,
    infoSource: "domain, guest-agent",
    interfaceName: "eth7",
    ipAddresses: ["10.0.0.1"],
    addressInfo: { source: "guest-agent", since: "2026-01-01T00:00:00Z" },
  };

  test.each([
    {
      name: "contains the guest's addresses, also an empty family",
      given: status,
      want: { name: "eth7", ipv4: { value: ["10.0.0.1"] }, ipv6: { value: [] } },
    },
    {
      name: "contains only the guest's link name if the addresses are the pod's",
      given: { ...status, addressInfo: { source: "pod", since: "" } },
      want: { name: "eth7", ipv4: { value: undefined }, ipv6: { value: undefined } },
    },
    {
      name: "omits a family that was not reported",
      given: { ...status, addressInfo: { source: "pod, guest-agent", since: "" } },
      want: { name: "eth7", ipv4: { value: ["10.0.0.1"] }, ipv6: { value: undefined } },
    },
  ] as const)("$name", ({ given: input, want }) => {
    expect(restoreGuestView([input]).nics.get(MAC)).toEqual({ mac: MAC, ...want });
  });

  test.each([
    { name: "only the domain reported it", given: { ...status, infoSource: "domain" } },
    { name: "it was a link created by the guest", given: { ...status, name: undefined } },
  ])("ignores a NIC if $name", ({ given: { name, ...input } }) => {
    expect(
      restoreGuestView([{ ...input, ...(name === undefined ? {} : { name }) }]).nics.size,
    ).toBe(0);
  });

  test("contains links that the guest created", () => {
    const own = { mac: OTHER_MAC, interfaceName: "docker0", ipAddresses: ["172.17.0.1"] };
    expect(restoreGuestView([status, own]).otherLinks).toEqual([
      { mac: OTHER_MAC, name: "docker0", ipv4: { value: ["172.17.0.1"] }, ipv6: { value: [] } },
    ]);
  });
});

test.each([
  { changedAgoMs: 0, queries: 0, want: 500 },
  { changedAgoMs: 400, queries: 0, want: 100 },
  { changedAgoMs: 900, queries: 0, want: 0 },
  { changedAgoMs: 900, queries: 1, want: 2_100 },
  { changedAgoMs: 100_000, queries: 3, want: 0 },
  { changedAgoMs: 100_000, queries: 4, queriedAgoMs: 40_000, want: 80_000 },
  { changedAgoMs: 900_000, queries: 9, queriedAgoMs: 120_000, want: 0 },
  { changedAgoMs: 900_000, queries: 9, queriedAgoMs: 5_000, failures: 1, want: 10_000 },
  { changedAgoMs: 900_000, queries: 9, queriedAgoMs: 120_000, failures: 1, want: 0 },
  { changedAgoMs: 900_000, queries: 9, queriedAgoMs: 120_000, failures: 2, want: 360_000 },
  { changedAgoMs: 900_000, queries: 9, queriedAgoMs: 0, failures: 2, want: 480_000 },
  { changedAgoMs: 900_000, queries: 9, queriedAgoMs: 0, failures: 50, want: 960_000 },
])(
  "$changedAgoMs ms after a change, after $queries queries, $failures unanswered: next query in $want ms",
  ({ want, ...history }) => {
    expect(computeAgentPollDelayMs({ queriedAgoMs: 0, failures: 0, ...history })).toBe(want);
  },
);
