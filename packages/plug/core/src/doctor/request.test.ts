// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { doctorPath, parseDoctorPath, parseDoctorQuery } from "./request.ts";

describe("a query", () => {
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
  ])("$query is told all that is wrong with it", ({ query, problems }) => {
    expect(parseDoctorQuery(query)).toEqual({ problems });
  });
});

describe("a path", () => {
  const key = { namespace: "blue", name: "vm1" };

  test("is printed and read", () => {
    expect(parseDoctorPath(doctorPath(key, "a/b"))).toEqual({ key, iface: "a/b" });
  });

  test.each(["/v1/namespaces/a/virtualmachineinstances/b/doctor", "/", "/v1/x/doctor/a"])(
    "%s is none",
    (path) => {
      expect(parseDoctorPath(path)).toBeUndefined();
    },
  );
});
