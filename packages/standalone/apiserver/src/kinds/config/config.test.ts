// SPDX-License-Identifier: Apache-2.0
// Refusals and defaults of config maps and secrets.
import { expect, test } from "vitest";
import { changeRefusals, refusals, withDefaults } from "../../testing/judge.ts";
import type { Kind } from "../kind.ts";
import { CONFIG_MAP } from "./config-map.ts";
import { SECRET } from "./secret.ts";

const MIB = 1024 * 1024;
const TOKEN = "kubernetes.io/service-account-token";
const NAME_ANNOTATION = "kubernetes.io/service-account.name";
const WHY_KEY =
  "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

test.each<{ name: string; kind: Kind; given: Record<string, unknown>; want: readonly string[] }>([
  {
    name: "all valid key characters",
    kind: CONFIG_MAP,
    given: { data: { "a-b.C_1": "x" }, binaryData: { d: "eA==" } },
    want: [],
  },
  {
    name: "invalid key characters",
    kind: CONFIG_MAP,
    given: { data: { "a b": "x", "/a": "" }, binaryData: { "": "" } },
    want: [
      `data[a b]: Invalid value: "a b": ${WHY_KEY}`,
      `data[/a]: Invalid value: "/a": ${WHY_KEY}`,
      `binaryData[]: Invalid value: "": ${WHY_KEY}`,
    ],
  },
  {
    name: "exactly 1 MiB of data, including a two-byte character",
    kind: CONFIG_MAP,
    given: { data: { a: "x".repeat(MIB - 3), b: "ä" }, binaryData: { c: "x", d: 5 } },
    want: [],
  },
  {
    name: "a byte more, and a bad key",
    kind: CONFIG_MAP,
    given: { data: { a: "x".repeat(MIB - 2), b: "ä" }, binaryData: { "c!": "x" } },
    want: [
      `binaryData[c!]: Invalid value: "c!": ${WHY_KEY}`,
      "data: Too long: must have at most 1048576 bytes",
    ],
  },
  {
    name: "a certificate without its key",
    kind: SECRET,
    given: { type: "kubernetes.io/tls", data: { "tls.crt": "" } },
    want: ["data[tls.key]: Required value"],
  },
  {
    name: "registry credentials as stringData",
    kind: SECRET,
    given: { type: "kubernetes.io/dockerconfigjson", stringData: { ".dockerconfigjson": "{}" } },
    want: [],
  },
  {
    name: "no SSH key",
    kind: SECRET,
    given: { type: "kubernetes.io/ssh-auth" },
    want: ["data[ssh-privatekey]: Required value"],
  },
  {
    name: "a token without a service account",
    kind: SECRET,
    given: { type: TOKEN },
    want: [`metadata.annotations[${NAME_ANNOTATION}]: Required value`],
  },
  {
    name: "a token of an account",
    kind: SECRET,
    given: { type: TOKEN, metadata: { annotations: { [NAME_ANNOTATION]: "a" } } },
    want: [],
  },
  { name: "no data", kind: SECRET, given: {}, want: [] },
])("$kind.kind with $name", ({ kind, given, want }) => {
  expect(refusals(kind, given)).toEqual(want);
});

const IMMUTABLE = "Forbidden: field is immutable when `immutable` is set";

test.each<{
  name: string;
  kind: Kind;
  before: Record<string, unknown>;
  after: Record<string, unknown>;
  want: readonly string[];
}>([
  {
    name: "mutable fields",
    kind: CONFIG_MAP,
    before: { immutable: false, data: { a: "1" } },
    after: { immutable: true, data: { a: "2" } },
    want: [],
  },
  {
    name: "an empty map to a missing map",
    kind: CONFIG_MAP,
    before: { immutable: true, data: {} },
    after: { immutable: true },
    want: [],
  },
  {
    name: "immutable fields",
    kind: CONFIG_MAP,
    before: { immutable: true, data: { a: "1" } },
    after: { data: { a: "2" }, binaryData: { b: "" } },
    want: [`immutable: ${IMMUTABLE}`, `data: ${IMMUTABLE}`, `binaryData: ${IMMUTABLE}`],
  },
  {
    name: "the type",
    kind: SECRET,
    before: { type: "a" },
    after: { type: "b" },
    want: ['type: Invalid value: "b": field is immutable'],
  },
  {
    name: "immutable data",
    kind: SECRET,
    before: { immutable: true, data: { a: "" } },
    after: { immutable: true },
    want: [`data: ${IMMUTABLE}`],
  },
])("a change of $name in a $kind.kind", ({ kind, before, after, want }) => {
  expect(changeRefusals(kind, before, after)).toEqual(want);
});

test.each([
  { given: {}, want: { type: "Opaque" } },
  { given: { type: "t", data: { a: "YQ==\n" } }, want: { type: "t", data: { a: "YQ==\n" } } },
  {
    given: { data: { a: "YQ==", b: "" }, stringData: { a: "b", c: "ä" } },
    want: { type: "Opaque", data: { a: "Yg==", b: "", c: "w6Q=" } },
  },
])("stores the secret $given as $want", ({ given, want }) => {
  const { apiVersion, kind, metadata, ...fields } = withDefaults(SECRET, given);
  expect([apiVersion, kind, metadata.name]).toEqual(["v1", "Secret", "o"]);
  expect(fields).toEqual(want);
});

test.each(["YQ", "YQ=", "Y===", "YQ==YQ==", "a b=", "äääa", "*"])("%s is not base64", (text) => {
  expect(() => withDefaults(SECRET, { data: { a: text } })).toThrow("illegal base64 data");
});
