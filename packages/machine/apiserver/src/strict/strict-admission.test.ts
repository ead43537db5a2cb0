// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { POD } from "../kinds/workload/pod.ts";
import type { KubeObject } from "../objects/object.ts";
import { FakeWebhooks } from "../testing/fake-webhooks.ts";
import { question } from "../testing/webhook-server.ts";
import { recordManagers, strictAdmission } from "./strict-admission.ts";

function aPod(): KubeObject {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "p", namespace: "ns" },
    spec: { volumes: [{ name: "i", image: {} }] },
  };
}

const BODY = { group: "", version: "v1", kind: "Binding" };
const complete = (object: KubeObject): KubeObject => object;

/** Strict admission that grants no rights on owners. */
function makeStrict() {
  const webhooks = new FakeWebhooks();
  const admission = strictAdmission(webhooks, {
    authorizer: { authorize: () => ({ allowed: false, reason: "" }) },
    registry: { findByKind: () => undefined },
  });
  return { webhooks, admission };
}

describe("strict admission", () => {
  test("fills in what webhooks made, and warns of fields that it drops", async () => {
    const { webhooks, admission } = makeStrict();
    webhooks.change = (object) => {
      object.metadata.labels = { a: "b" };
    };
    const asked = question({ kind: POD, object: aPod() });
    const pod = await admission.mutate(asked, complete);
    expect(pod.metadata.labels).toEqual({ a: "b" });
    expect(pod["spec"]).toMatchObject({
      volumes: [{ name: "i", emptyDir: {} }],
      tolerations: [{}, {}],
    });
    expect(pod.metadata.managedFields).toHaveLength(1);
    expect(asked.warnings).toEqual(['unknown field "spec.volumes[0].image"']);
  });

  test("fills in nothing that is not stored", async () => {
    const { admission } = makeStrict();
    const given = question({ kind: POD, object: aPod(), bodyKind: BODY });
    const pod = await admission.mutate(given, complete);
    expect(pod.metadata.managedFields).toBeUndefined();
    expect(pod["spec"]).not.toHaveProperty("tolerations");
  });

  test("refuses owners before webhooks see the object", async () => {
    const { webhooks, admission } = makeStrict();
    const owned = aPod();
    owned.metadata.ownerReferences = [
      { apiVersion: "v1", kind: "ConfigMap", name: "o", uid: "1", blockOwnerDeletion: true },
    ];
    const refused = admission.validate(question({ kind: POD, object: owned }));
    await expect(refused).rejects.toMatchObject({ code: 403 });
    expect(webhooks.asked).toEqual([]);
  });

  test("leaves the rest to webhooks", async () => {
    const { webhooks, admission } = makeStrict();
    await admission.validate(question({ kind: POD, object: aPod() }));
    await admission.admitDeletion(question({ kind: POD, oldObject: aPod() }));
    expect(webhooks.asked.map(({ phase }) => phase)).toEqual(["validate", "delete"]);
  });
});

describe("with recorded managers", () => {
  test("what is stored names them, and nothing else is filled in", async () => {
    const admission = recordManagers(new FakeWebhooks());
    const pod = await admission.mutate(question({ kind: POD, object: aPod() }), complete);
    expect(pod.metadata.managedFields).toHaveLength(1);
    expect(pod["spec"]).toEqual(aPod()["spec"]);
  });

  test("what is not stored does not", async () => {
    const admission = recordManagers(new FakeWebhooks());
    const asked = question({ kind: POD, object: aPod(), bodyKind: BODY });
    expect(await admission.mutate(asked, complete)).toEqual(aPod());
  });

  test("the rest is left to webhooks", async () => {
    const webhooks = new FakeWebhooks();
    const admission = recordManagers(webhooks);
    await admission.validate(question());
    await admission.admitDeletion(question());
    expect(webhooks.asked.map(({ phase }) => phase)).toEqual(["validate", "delete"]);
  });
});
