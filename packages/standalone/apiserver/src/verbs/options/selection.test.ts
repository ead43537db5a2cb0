// SPDX-License-Identifier: Apache-2.0
// Objects that field selectors match.
import { createFakeClock } from "@patchbay/os/testing";
import { describe, expect, test } from "vitest";
import { toKinds } from "../../custom/custom-kind.ts";
import { NAMESPACE } from "../../kinds/cluster/namespace.ts";
import { NODE } from "../../kinds/cluster/node.ts";
import { SECRET } from "../../kinds/config/secret.ts";
import type { Kind } from "../../kinds/kind.ts";
import { SERVICE } from "../../kinds/network/service.ts";
import { POD } from "../../kinds/workload/pod.ts";
import { objectOf } from "../../testing/judge.ts";
import { widgetDefinition } from "../../testing/objects.ts";
import type { StoredObject } from "../../storage/store.ts";
import { ADMIN } from "../../testing/test-server.ts";
import { openTimeSlice } from "../../testing/time-slice.ts";
import { parseFieldSelector, selectMatching } from "./selection.ts";

const POD_OF_NS = {
  metadata: { name: "p", namespace: "ns" },
  spec: { nodeName: "n,1" },
  status: { phase: "Running" },
};

test.each([
  { selector: "metadata.name=p", want: true, name: "p" },
  { selector: "metadata.name==p", want: true, name: "p" },
  { selector: "metadata.name!=p", want: false, name: undefined },
  { selector: "metadata.name!=q,metadata.name=p", want: true, name: "p" },
  { selector: "metadata.namespace=ns", want: true, name: undefined },
  { selector: "metadata.namespace=", want: false, name: undefined },
  { selector: "status.phase=Running,metadata.name=q", want: false, name: "q" },
  { selector: ",status.phase=Running,", want: true, name: undefined },
  { selector: String.raw`spec.nodeName=n\,1`, want: true, name: undefined },
  { selector: String.raw`spec.nodeName!=n\,1`, want: false, name: undefined },
  { selector: "spec.nodeName=a=b", want: false, name: undefined },
])("$selector matches: $want", ({ selector, want, name }) => {
  const parsed = parseFieldSelector(selector, POD);
  expect([parsed?.matches(objectOf(POD, POD_OF_NS)), parsed?.name]).toEqual([want, name]);
});

test("an object without a namespace matches an empty namespace", () => {
  const parsed = parseFieldSelector("metadata.namespace=", NODE);
  expect(parsed?.matches(objectOf(NODE))).toBe(true);
});

test.each(["", ",", ",,"])("'%s' selects everything", (selector) => {
  expect(parseFieldSelector(selector, POD)).toBeUndefined();
});

describe("a selector is rejected", () => {
  test.each(["metadata.name", "=p", "!=p", "a!b=c"])("with invalid syntax: %s", (selector) => {
    expect(() => parseFieldSelector(selector, POD)).toThrow(
      `invalid field selector: "${selector}"; can't understand it`,
    );
  });

  const of = (what: string, selector: string): string =>
    `Unable to find "${what}" that match label selector "", field selector "${selector}": `;

  test("for a field that the kind does not support", () => {
    expect(() => parseFieldSelector("spec.x=1", POD)).toThrow(
      `${of("v1, Resource=pods", "spec.x=1")}"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"`,
    );
  });

  test("for a field that a custom kind does not support", () => {
    const [kind] = toKinds(widgetDefinition(), 1);
    if (kind === undefined) throw new Error("no kind");
    expect(() => parseFieldSelector("spec.x=1", kind)).toThrow(
      `${of("test.io/v1, Resource=widgets", "spec.x=1")}field label not supported: spec.x`,
    );
  });
});

test.each<{ kind: Kind; field: string; given: Record<string, unknown>; want: string }>([
  {
    kind: NAMESPACE,
    field: "status.phase",
    given: { status: { phase: "Active" } },
    want: "Active",
  },
  {
    kind: NODE,
    field: "spec.unschedulable",
    given: { spec: { unschedulable: true } },
    want: "true",
  },
  { kind: NODE, field: "spec.unschedulable", given: { spec: {} }, want: "false" },
  { kind: SECRET, field: "type", given: { type: "Opaque" }, want: "Opaque" },
  { kind: SERVICE, field: "spec.clusterIP", given: { spec: { clusterIP: "None" } }, want: "None" },
  { kind: SERVICE, field: "spec.type", given: { spec: { type: "NodePort" } }, want: "NodePort" },
])("$kind.kind has $field=$want", ({ kind, field, given, want }) => {
  expect(kind.strategy.selectableFields[field]?.(objectOf(kind, given))).toBe(want);
});

test("a search that cannot continue fails, and returns no part of the matches", async () => {
  const clock = createFakeClock();
  const thread = () => Promise.resolve(false);
  const timeSlice = openTimeSlice(ADMIN, { clock, thread });
  const matches = (): boolean => {
    void clock.advance(10);
    return true;
  };
  const selection = { scope: { bucket: "/pods" }, matches, name: undefined };
  const objects = [{}, {}] as StoredObject[];
  await expect(selectMatching(objects, selection, { timeSlice })).rejects.toMatchObject({
    code: 500,
  });
});
