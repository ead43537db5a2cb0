// SPDX-License-Identifier: Apache-2.0
// The default routes of a pod, from attachment to attachment.
import { describe, expect, test } from "vitest";
import type { DefaultRoute } from "../../interfaces/node/default-routes.ts";
import {
  findEarlierRouteRequest,
  findConflictingRoutes,
  listRoutesToRecord,
  listRoutesToRestore,
  type RouteClaim,
} from "./default-routes.ts";

function route(link: string, gateway?: string, version: 4 | 6 = 4): DefaultRoute {
  const text = `${String(version)} ${link} ${gateway ?? ""}`;
  return { version, link, words: text, ...(gateway === undefined ? {} : { gateway }) };
}

const CLUSTER = route("eth0", "10.0.0.1");
const CLUSTER6 = route("eth0", "fd00::1", 6);
const ONE = route("net1", "10.1.0.1");
const TWO = route("net2", "10.2.0.1");

function claim(name: string, gateways: readonly string[], ...replaced: DefaultRoute[]): RouteClaim {
  return { interfaceName: name, gateways, replaced };
}

test.each([
  { name: "none is there", present: [], gateways: ["10.1.0.1"], want: [] },
  {
    name: "those of another family stay",
    present: [CLUSTER, CLUSTER6],
    gateways: ["10.1.0.1"],
    want: [CLUSTER],
  },
  {
    name: "both families go",
    present: [CLUSTER, CLUSTER6],
    gateways: ["10.1.0.1", "fd01::1"],
    want: [CLUSTER, CLUSTER6],
  },
  {
    name: "what the plugin has set already stays",
    present: [CLUSTER, ONE],
    gateways: ["10.1.0.1"],
    want: [CLUSTER],
  },
  {
    name: "another gateway of the same NIC goes",
    present: [ONE],
    gateways: ["10.1.0.9"],
    want: [ONE],
  },
  {
    name: "the same gateway by another NIC, and one without gateway, go",
    present: [route("eth0", "10.1.0.1"), route("net1")],
    gateways: ["10.1.0.1"],
    want: [route("eth0", "10.1.0.1"), route("net1")],
  },
])("in the way of net1: $name", ({ present, gateways, want }) => {
  expect(findConflictingRoutes(present, { interfaceName: "net1", gateways })).toEqual(want);
});

test.each([
  { name: "what gives way", inTheWay: [CLUSTER], others: [], want: [CLUSTER] },
  { name: "nothing of its own NIC", inTheWay: [CLUSTER, TWO], others: [], want: [CLUSTER] },
  {
    name: "what gave way to one before, once",
    inTheWay: [ONE],
    others: [claim("net1", ["10.1.0.1"], CLUSTER), claim("net3", ["10.3.0.1"], CLUSTER)],
    want: [ONE, CLUSTER],
  },
  {
    name: "nothing of another family",
    inTheWay: [],
    others: [claim("net1", ["fd01::1"], CLUSTER6)],
    want: [],
  },
])("net2 remembers $name", ({ inTheWay: conflicting, others, want }) => {
  const requested = { interfaceName: "net2", gateways: ["10.2.0.1"] };
  expect(listRoutesToRecord(conflicting, requested, others)).toEqual(want);
});

describe("when the attachment is deleted", () => {
  test.each([
    {
      name: "the cluster's comes back",
      leaving: claim("net1", ["10.1.0.1"], CLUSTER),
      others: [],
      want: [CLUSTER],
    },
    {
      name: "that of the one before comes back, and not the cluster's",
      leaving: claim("net2", ["10.2.0.1"], ONE, CLUSTER),
      others: [claim("net1", ["10.1.0.1"], CLUSTER)],
      want: [ONE],
    },
    {
      name: "nothing comes back while a later one has the route",
      leaving: claim("net1", ["10.1.0.1"], CLUSTER),
      others: [claim("net2", ["10.2.0.1"], ONE, CLUSTER)],
      want: [],
    },
    {
      name: "a family that nobody else claims comes back",
      leaving: claim("net1", ["10.1.0.1", "fd01::1"], CLUSTER, CLUSTER6),
      others: [claim("net2", ["10.2.0.1"], ONE, CLUSTER)],
      want: [CLUSTER6],
    },
  ])("$name", ({ leaving: deleting, others, want }) => {
    expect(listRoutesToRestore(deleting, others)).toEqual(want);
  });
});

test("assigns default routes only to the first element that requests them", () => {
  const plain = { name: "a" };
  const first = { name: "b", "default-route": ["10.1.0.1"] };
  const second = { name: "c", "default-route": ["fd01::1"] };
  const elements = [plain, first, second];
  expect(findEarlierRouteRequest(elements, first)).toBeUndefined();
  expect(findEarlierRouteRequest(elements, second)).toBe(first);
});
