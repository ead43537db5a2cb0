// SPDX-License-Identifier: Apache-2.0
// Refusals and defaults of APIServices.
import { expect, test } from "vitest";
import type { Fields } from "../../objects/json.ts";
import { refusals, withDefaults } from "../../testing/judge.ts";
import { API_SERVICE } from "./api-service.ts";

const NOT_PORT = "port is not valid: must be between 1 and 65535, inclusive";
const service = { namespace: "n", name: "s" };
const remote = {
  group: "x.io",
  version: "v1",
  groupPriorityMinimum: 100,
  versionPriority: 10,
  service,
};

test.each<{ name: string; given: Fields; metadata?: Fields; want: readonly string[] }>([
  { name: "all", given: remote, want: [] },
  {
    name: "the highest priorities",
    given: { ...remote, groupPriorityMinimum: 20_000, versionPriority: 1000 },
    want: [],
  },
  {
    name: "priorities out of bounds",
    given: { ...remote, groupPriorityMinimum: 20_001, versionPriority: 1001 },
    want: [
      "spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000",
      "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000",
    ],
  },
  {
    name: "missing priorities",
    given: { group: "x.io", version: "v1", service },
    want: [
      "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
      "spec.versionPriority: Invalid value: 0: must be positive and less than 1000",
    ],
  },
  {
    name: "a name that does not match its version and group",
    given: remote,
    metadata: { name: "v2.x.io" },
    want: [
      'metadata.name: Invalid value: "v2.x.io": must be `spec.version+"."+spec.group`: "v1.x.io"',
    ],
  },
  {
    name: "a name that is refused anyway",
    given: remote,
    metadata: { name: "a/b" },
    want: [],
  },
  { name: "an empty name", given: remote, metadata: { name: "" }, want: [] },
  {
    name: "the core group",
    given: { ...remote, group: "" },
    metadata: { name: "v1." },
    want: [],
  },
  {
    name: "another version of that group",
    given: { ...remote, group: "", version: "v2" },
    metadata: { name: "v2." },
    want: [
      "spec.group: Required value: only v1 may have an empty group and it better be legacy kube",
    ],
  },
  {
    name: "an invalid group and version",
    given: { ...remote, group: "X", version: "1" },
    metadata: { name: "1.X" },
    want: [
      expect.stringMatching(/^spec\.group: Invalid value: "X": a lowercase RFC 1123/) as string,
      expect.stringMatching(/^spec\.version: Invalid value: "1": a DNS-1035/) as string,
    ],
  },
  {
    name: "a Service without a name, at no port",
    given: { ...remote, service: { port: 0 } },
    want: [
      "spec.service.namespace: Required value",
      "spec.service.name: Required value",
      `spec.service.port: Invalid value: 0: ${NOT_PORT}`,
    ],
  },
  {
    name: "the highest port",
    given: { ...remote, service: { ...service, port: 65_535 } },
    want: [],
  },
  {
    name: "a port out of range",
    given: { ...remote, service: { ...service, port: 65_536 } },
    want: [`spec.service.port: Invalid value: 65536: ${NOT_PORT}`],
  },
  {
    name: "a certificate although verification is skipped",
    given: { ...remote, caBundle: "YWJj", insecureSkipTLSVerify: true },
    want: [
      "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present",
    ],
  },
  { name: "a certificate", given: { ...remote, caBundle: "YWJj" }, want: [] },
  { name: "skipped verification", given: { ...remote, insecureSkipTLSVerify: true }, want: [] },
  {
    name: "a certificate although it is local",
    given: { ...remote, service: undefined, caBundle: "YWJj", insecureSkipTLSVerify: true },
    want: [
      'spec.caBundle: Invalid value: "3 bytes": local APIServices may not have a caBundle',
      "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
    ],
  },
  { name: "no Service, since it is local", given: { ...remote, service: undefined }, want: [] },
])("an APIService with $name", ({ given, metadata = { name: "v1.x.io" }, want }) => {
  expect(refusals(API_SERVICE, { metadata, spec: given })).toEqual(want);
});

test.each([
  { given: { service: {} }, want: { service: { port: 443 } } },
  { given: { service: { port: 1 } }, want: { service: { port: 1 } } },
  { given: {}, want: {} },
])("an APIService with $given has $want", ({ given, want }) => {
  expect(withDefaults(API_SERVICE, { spec: given })["spec"]).toEqual(want);
});
