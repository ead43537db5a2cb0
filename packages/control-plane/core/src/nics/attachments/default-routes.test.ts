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
  { name: "no default routes exist", present: [], gateways: ["10.1.0.1"], want: [] },
  {
    name: "routes of the other family are retained",
    present: [CLUSTER, CLUSTER6],
    gateways: ["10.1.0.1"],
    want: [CLUSTER],
  },
  {
    name: "both families are removed",
    present: [CLUSTER, CLUSTER6],
    gateways: ["10.1.0.1", "fd01::1"],
    want: [CLUSTER, CLUSTER6],
  },
  {
    name: "routes that the plugin has set are retained",
    present: [CLUSTER, ONE],
    gateways: ["10.1.0.1"],
    want: [CLUSTER],
  },
  {
    name: "another gateway on the same NIC is removed",
    present: [ONE],
    gateways: ["10.1.0.9"],
    want: [ONE],
  },
  {
    name: "the same gateway on another NIC and a route without gateway are removed",
    present: [route("eth0", "10.1.0.1"), route("net1")],
    gateways: ["10.1.0.1"],
    want: [route("eth0", "10.1.0.1"), route("net1")],
  },
])("routes that conflict with net1: $name", ({ present, gateways, want }) => {
  expect(findConflictingRoutes(present, { interfaceName: "net1", gateways })).toEqual(want);
});

test.each([
  { name: "the routes that it replaces", inTheWay: [CLUSTER], others: [], want: [CLUSTER] },
  { name: "no routes of its own NIC", inTheWay: [CLUSTER, TWO], others: [], want: [CLUSTER] },
  {
    name: "the routes that an earlier attachment replaced, once",
    inTheWay: [ONE],
    others: [claim("net1", ["10.1.0.1"], CLUSTER), claim("net3", ["10.3.0.1"], CLUSTER)],
    want: [ONE, CLUSTER],
  },
  {
    name: "no routes of the other family",
    inTheWay: [],
    others: [claim("net1", ["fd01::1"], CLUSTER6)],
    want: [],
  },
])("net2 records $name", ({ inTheWay: conflicting, others, want }) => {
  const requested = { interfaceName: "net2", gateways: ["10.2.0.1"] };
  expect(listRoutesToRecord(conflicting, requested, others)).toEqual(want);
});

describe("when the attachment is deleted", () => {
  test.each([
    {
      name: "the cluster's route is restored",
      leaving: claim("net1", ["10.1.0.1"], CLUSTER),
      others: [],
      want: [CLUSTER],
    },
    {
      name: "the earlier attachment's route is restored, not the cluster's",
      leaving: claim("net2", ["10.2.0.1"], ONE, CLUSTER),
      others: [claim("net1", ["10.1.0.1"], CLUSTER)],
      want: [ONE],
    },
    {
      name: "no route is restored while a later attachment has the route",
      leaving: claim("net1", ["10.1.0.1"], CLUSTER),
      others: [claim("net2", ["10.2.0.1"], ONE, CLUSTER)],
      want: [],
    },
    {
      name: "a route of a family that no other attachment claims is restored",
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
