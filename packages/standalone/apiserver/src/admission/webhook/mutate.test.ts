// SPDX-License-Identifier: Apache-2.0
// What the patches of webhooks make of an object, and which are refused.
import { describe, expect, test } from "vitest";
import { badRequest, invalid } from "../../meta/status.ts";
import type { Fields } from "../../objects/json.ts";
import {
  makeWebhookServer,
  hook,
  label,
  makeAdmission,
  patchOf,
  admissionRequest,
  same,
} from "../../testing/webhook-server.ts";

describe("mutation", () => {
  test("passes the object from webhook to webhook and collects warnings", async () => {
    const one = makeWebhookServer({ ...label("one"), warnings: ["w1"] });
    const two = makeWebhookServer({
      ...patchOf({ op: "add", path: "/data", value: { a: "b" } }),
      warnings: ["w2"],
    });
    const { admission } = await makeAdmission(
      { "one:443": one.server, "two:443": two.server },
      { mutating: [hook("one"), hook("two")] },
    );
    const given = admissionRequest();
    const object = await admission.mutate(given, (changed) => ({ ...changed, completed: true }));
    expect(object).toEqual({
      ...given.object,
      metadata: { ...given.object.metadata, labels: { one: "1" } },
      data: { a: "b" },
      completed: true,
    });
    expect(given.warnings).toEqual(["w1", "w2"]);
    expect([one.received.length, two.received.length]).toEqual([1, 1]);
  });

  test("calls a webhook again after a later change if its reinvocation policy requests it", async () => {
    const one = makeWebhookServer({});
    const other = makeWebhookServer({});
    const two = makeWebhookServer(label("two"));
    const { admission } = await makeAdmission(
      { "one:443": one.server, "other:443": other.server, "two:443": two.server },
      {
        mutating: [
          hook("one", { reinvocationPolicy: "IfNeeded" }),
          hook("other"),
          hook("two", { reinvocationPolicy: "IfNeeded" }),
        ],
      },
    );
    await admission.mutate(admissionRequest(), same);
    expect([one, other, two].map(({ received }) => received.length)).toEqual([2, 1, 1]);
  });

  test.each<{ name: string; response: Fields; message: string }>([
    {
      name: "a patch that does not fit",
      response: patchOf({ op: "remove", path: "/nope" }),
      message: expect.any(String) as string,
    },
    {
      name: "a patch that deletes the object",
      response: patchOf({ op: "remove", path: "/metadata" }),
      message: expect.stringContaining("is not an object") as string,
    },
    {
      name: "a patch of an unknown type",
      response: { ...label("x"), patchType: "Merge" },
      message:
        'Internal error occurred: failed calling webhook "one": unsupported patch type "Merge"',
    },
    {
      name: "a patch without a type",
      response: { patch: "W10=" },
      message: expect.stringContaining(
        "webhook returned response.patch but not response.patchType",
      ) as string,
    },
    {
      name: "a type without a patch",
      response: { patchType: "JSONPatch" },
      message: expect.stringContaining(
        "webhook returned response.patchType but not response.patch",
      ) as string,
    },
    {
      name: "an empty type",
      response: { ...label("x"), patchType: "" },
      message: expect.stringContaining(
        'webhook returned invalid response.patchType of ""',
      ) as string,
    },
    {
      name: "a patch that is no text",
      response: { patchType: "JSONPatch", patch: 7 },
      message: expect.stringContaining("illegal base64 data at input byte 0") as string,
    },
    {
      name: "a patch that is truncated base64",
      response: { patchType: "JSONPatch", patch: "abc" },
      message: expect.stringContaining("illegal base64 data at input byte 0") as string,
    },
    {
      name: "a patch that is no base64",
      response: { patchType: "JSONPatch", patch: "ab!c" },
      message: expect.stringContaining("illegal base64 data at input byte 2") as string,
    },
  ])("rejects $name", async ({ response, message }) => {
    const { admission } = await makeAdmission(
      { "one:443": makeWebhookServer(response).server },
      { mutating: [hook("one")] },
    );
    await expect(admission.mutate(admissionRequest(), same)).rejects.toMatchObject({
      code: 500,
      message,
    });
  });

  test.each([
    { name: "another namespace", path: "/metadata/namespace", code: 400 },
    { name: "another name", path: "/metadata/name", code: 422 },
  ])("rejects $name", async ({ path, code }) => {
    const one = makeWebhookServer(patchOf({ op: "replace", path, value: "x" }));
    const { admission } = await makeAdmission(
      { "one:443": one.server },
      { mutating: [hook("one")] },
    );
    const asked = admissionRequest({ operation: "UPDATE", oldObject: admissionRequest().object });
    await expect(admission.mutate(asked, same)).rejects.toMatchObject({ code });
  });

  test("by a null patch changes nothing", async () => {
    const one = makeWebhookServer({
      patchType: "JSONPatch",
      patch: Buffer.from("null").toString("base64"),
    });
    const { admission } = await makeAdmission(
      { "one:443": one.server },
      { mutating: [hook("one")] },
    );
    const given = admissionRequest();
    expect(await admission.mutate(given, same)).toEqual(given.object);
  });

  test("preserves the kind and the version of the object", async () => {
    const one = makeWebhookServer(
      patchOf(
        { op: "replace", path: "/kind", value: "Other" },
        { op: "replace", path: "/apiVersion", value: "other/v1" },
      ),
    );
    const { admission } = await makeAdmission(
      { "one:443": one.server },
      { mutating: [hook("one")] },
    );
    const given = admissionRequest();
    expect(await admission.mutate(given, same)).toEqual(given.object);
  });

  test("of a subresource body preserves its kind, and may change its name and namespace", async () => {
    const one = makeWebhookServer(
      patchOf(
        { op: "replace", path: "/metadata/name", value: "x" },
        { op: "replace", path: "/metadata/namespace", value: "x" },
        { op: "replace", path: "/kind", value: "Other" },
      ),
    );
    const { admission } = await makeAdmission(
      { "one:443": one.server },
      { mutating: [hook("one")] },
    );
    const object = { apiVersion: "a/v1", kind: "Body", metadata: { name: "m", namespace: "ns" } };
    const bodyKind = { group: "a", version: "v1", kind: "Body" };
    const asked = admissionRequest({ bodyKind, object, oldObject: admissionRequest().object });
    expect(await admission.mutate(asked, same)).toEqual({
      ...object,
      metadata: { name: "x", namespace: "x" },
    });
  });

  test.each([
    { name: "a missing namespace", path: "/metadata/namespace" },
    { name: "a missing name", path: "/metadata/name" },
  ])("replaces $name with that of the request", async ({ path }) => {
    const one = makeWebhookServer(patchOf({ op: "replace", path, value: "" }));
    const { admission } = await makeAdmission(
      { "one:443": one.server },
      { mutating: [hook("one")] },
    );
    const asked = admissionRequest({ operation: "UPDATE", oldObject: admissionRequest().object });
    await expect(admission.mutate(asked, same)).resolves.toMatchObject({ kind: "ConfigMap" });
  });

  test.each([
    { name: "in the request", given: badRequest("wrong"), want: 500 },
    {
      name: "in a field",
      given: invalid({ group: "", resource: "x", kind: "X" }, "x", []),
      want: 422,
    },
  ])("of an object with a fault $name returns $want", async ({ given, want }) => {
    const { admission } = await makeAdmission(
      { "one:443": makeWebhookServer(label("x")).server },
      { mutating: [hook("one")] },
    );
    const completing = admission.mutate(admissionRequest(), () => {
      throw given;
    });
    await expect(completing).rejects.toMatchObject({ code: want });
  });

  test("cannot change a deletion", async () => {
    const { admission } = await makeAdmission(
      { "one:443": makeWebhookServer(label("x")).server },
      { mutating: [hook("one")] },
    );
    await expect(
      admission.admitDeletion(admissionRequest({ operation: "DELETE" })),
    ).rejects.toMatchObject({
      code: 500,
      message:
        'Internal error occurred: admission webhook "one" attempted to modify the object, which is not supported for this operation',
    });
  });
});
