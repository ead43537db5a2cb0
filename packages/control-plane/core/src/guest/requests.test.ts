// SPDX-License-Identifier: Apache-2.0
import { expect, test, describe } from "vitest";
import {
  buildGuestPath,
  parseGuestRequest,
  buildGuestStreamPath,
  parseGuestStream,
  buildDoctorPath,
  parseDoctorPath,
  parseDoctorQuery,
} from "./requests.ts";

test("parses a request from its path", () => {
  const key = { namespace: "ns", name: "vm-1" };
  const path = buildGuestPath(key, "pause");
  expect(path).toBe("/v1/namespaces/ns/virtualmachineinstances/vm-1/pause");
  expect(parseGuestRequest(path)).toEqual({ key, request: "pause" });
});

test.each([
  "/",
  "/v1/namespaces/ns/virtualmachineinstances/vm/sing",
  "/v1/namespaces/ns/virtualmachineinstances/vm/toString",
  "/v1/namespaces/ns/virtualmachineinstances/vm/pause/more",
  "/v2/namespaces/ns/virtualmachineinstances/vm/pause",
  "/v1/namespaces/ns/pods/vm/pause",
])("%s is not a request", (path) => {
  expect(parseGuestRequest(path)).toBeUndefined();
});

const KEY = { namespace: "ns", name: "vm" };

test.each([
  { stream: "console", preservesSession: false },
  { stream: "vnc", preservesSession: true },
  { stream: "vnc", preservesSession: true, sharesScreen: true },
] as const)(
  "round-trips a $stream request, preserving the session: $preservesSession",
  (request) => {
    expect(parseGuestStream(buildGuestStreamPath(KEY, request))).toEqual({ key: KEY, ...request });
  },
);

test("allows only one console client", () => {
  const request = { stream: "console", preservesSession: false, sharesScreen: true } as const;
  expect(parseGuestStream(buildGuestStreamPath(KEY, request))?.sharesScreen).toBeUndefined();
});

test.each([
  "",
  "/v1/namespaces/ns/virtualmachineinstances/vm/pause",
  "/v1/namespaces/ns/virtualmachineinstances/vm/console/more",
  "/v1/namespaces/ns/virtualmachines/vm/console",
])("rejects %j as a stream path", (path) => {
  expect(parseGuestStream(path)).toBeUndefined();
});

describe("a doctor query", () => {
  test("names one interface", () => {
    expect(parseDoctorQuery([["interface", "blue"]])).toEqual({ iface: "blue" });
  });

  test.each([
    { query: [], problems: ["interface: must name an interface of the VM"] },
    {
      query: [
        ["interface", "a".repeat(64)],
        ["color", "red"],
      ] as const,
      problems: [
        "interface: must name an interface of the VM",
        "color: is not known; known is interface",
      ],
    },
  ])("$query is rejected with all its problems", ({ query, problems }) => {
    expect(parseDoctorQuery(query)).toEqual({ problems });
  });
});

describe("a doctor path", () => {
  const key = { namespace: "blue", name: "vm1" };

  test("round-trips", () => {
    expect(parseDoctorPath(buildDoctorPath(key, "a/b"))).toEqual({ key, iface: "a/b" });
  });

  test.each(["/v1/namespaces/a/virtualmachineinstances/b/doctor", "/", "/v1/x/doctor/a"])(
    "rejects %s",
    (path) => {
      expect(parseDoctorPath(path)).toBeUndefined();
    },
  );
});
