// SPDX-License-Identifier: Apache-2.0
// Texts are KubeVirt's. Source: KubeVirt v1.0.1 pkg/virt-api/rest/interfacehotplug.go and its test.
import { expect, test } from "vitest";
import { parseAddIface, parseRemoveIface } from "./ifaces.ts";

const NAD = "networkAttachmentDefinitionName";

test.each<{ name: string; body: unknown; message: string; fields: readonly string[] }>([
  {
    name: "no body",
    body: undefined,
    message: "no request body, unable to decode options",
    fields: [],
  },
  {
    name: "a body that is not an object",
    body: [],
    message: "cannot unmarshal Request body to struct, error: the body is not a JSON object",
    fields: [],
  },
  {
    name: "no network name",
    body: { name: "pluggediface1" },
    message: "AddInterfaceOptions requires `networkAttachmentDefinitionName` to be set",
    fields: [NAD],
  },
  {
    name: "no interface name",
    body: { [NAD]: "meganet2000" },
    message: "AddInterfaceOptions requires `name` to be set",
    fields: ["name"],
  },
  {
    name: "an empty object",
    body: {},
    message: "AddInterfaceOptions requires `networkAttachmentDefinitionName` to be set",
    fields: [NAD, "name"],
  },
  {
    name: "an unknown field",
    body: { [NAD]: "a", name: "b", macAdress: "x" },
    message: 'unknown field "macAdress"',
    fields: ["macAdress"],
  },
  {
    name: "an empty name and a missing name",
    body: { [NAD]: "", name: null },
    message: "AddInterfaceOptions requires `networkAttachmentDefinitionName` to be set",
    fields: [NAD, "name"],
  },
  {
    name: "objects, strings and lists confused",
    body: { [NAD]: "a", name: "b", bridge: "x", cniArgs: [], model: {}, ips: "x", acpiIndex: 1.5 },
    message: "bridge must be of type object",
    fields: ["bridge", "cniArgs", "model", "ips", "acpiIndex"],
  },
  {
    name: "a list with an entry that is not text",
    body: { [NAD]: "a", name: "b", ips: ["10.0.0.1", 1] },
    message: "ips must be of type list",
    fields: ["ips"],
  },
  {
    name: "a binding without a name",
    body: { [NAD]: "a", name: "b", binding: {} },
    message: "binding.name must be a string",
    fields: ["binding.name"],
  },
  {
    name: "fields of the wrong type",
    body: { [NAD]: 1, name: "b", acpiIndex: "1", ips: [1] },
    message: "networkAttachmentDefinitionName must be a string",
    fields: [NAD, "acpiIndex", "ips"],
  },
])("adding with $name fails with 400", ({ body, message, fields }) => {
  expect(parseAddIface(body)).toMatchObject({
    ok: false,
    refusal: { code: 400, reason: "BadRequest", message },
  });
  const parsed = parseAddIface(body);
  expect(parsed.ok ? [] : parsed.refusal.causes.map(({ field }) => field)).toEqual(fields);
});

test("accepts interface fields and drops empty ones", () => {
  const body = {
    [NAD]: "a",
    name: "b",
    model: "",
    macAddress: "02:00:00:00:00:01",
    dryRun: ["All"],
  };
  expect(parseAddIface(body)).toEqual({
    ok: true,
    value: { name: "b", [NAD]: "a", fields: { macAddress: "02:00:00:00:00:01" } },
  });
});

test("accepts each field of its type, and rejects null", () => {
  const fields = {
    model: "e1000",
    acpiIndex: 1,
    bridge: {},
    ips: ["10.0.0.1/24"],
    cniArgs: { key: "value" },
  };
  expect(parseAddIface({ [NAD]: "a", name: "b", ...fields, tag: null })).toEqual({
    ok: true,
    value: { name: "b", [NAD]: "a", fields },
  });
});

test.each([
  [{ name: "pluggediface1" }, { ok: true, value: { name: "pluggediface1" } }],
  [{}, { ok: false, refusal: { message: "RemoveInterfaceOptions requires `name` to be set" } }],
])("removing %j", (body, want) => {
  expect(parseRemoveIface(body)).toMatchObject(want);
});
