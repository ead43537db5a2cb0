// SPDX-License-Identifier: Apache-2.0
// Facts before an installation: webhooks that could block it, missing rights, and refused requests.
import type { KubeObject, WebhookConfiguration } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import { createFakeStore } from "@patchbay/kube/testing";
import { parseManifests, readManifests } from "@patchbay/manifests";
import { createFiles } from "@patchbay/os";
import { expect, test } from "vitest";
import { collectInstallFacts, findBlockingWebhooks, listMissingRights } from "./before-install.ts";
import { judgeBeforeInstall } from "./checks/before-install.ts";

const objects = parseManifests(await readManifests(createFiles(), "base"));
const LABELS = { "kubernetes.io/metadata.name": "patchbay" };

type Webhook = NonNullable<WebhookConfiguration["webhooks"]>[number];

function configure(
  webhook: Partial<Webhook>,
  labels: Readonly<Record<string, string>> = {},
): WebhookConfiguration {
  return {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "ValidatingWebhookConfiguration",
    metadata: { name: "policies", labels },
    webhooks: [
      {
        name: "pods.example",
        clientConfig: { service: { namespace: "policy", name: "server" } },
        failurePolicy: "Fail",
        rules: [{ apiGroups: [""], operations: ["CREATE"], resources: ["pods"] }],
        ...webhook,
      },
    ],
  };
}

const AGENT = { matchLabels: { "app.kubernetes.io/name": "net-agent" } };
const OTHER = { matchLabels: { "app.kubernetes.io/name": "other" } };

test.each<{ name: string; given: WebhookConfiguration; isBlocking: boolean }>([
  { name: "for pods", given: configure({}), isBlocking: true },
  {
    name: "for all objects",
    given: configure({ rules: [{ apiGroups: ["*"], operations: ["*"], resources: ["*/*"] }] }),
    isBlocking: true,
  },
  {
    name: "for Deployments, by the default failure policy",
    given: configure({
      failurePolicy: undefined as unknown as string,
      rules: [{ apiGroups: ["apps"], operations: ["*"], resources: ["deployments"] }],
    }),
    isBlocking: true,
  },
  { name: "for net-agent", given: configure({ objectSelector: AGENT }), isBlocking: true },
  { name: "for other pods", given: configure({ objectSelector: OTHER }), isBlocking: false },
  { name: "that fails open", given: configure({ failurePolicy: "Ignore" }), isBlocking: false },
  { name: "at a URL", given: configure({ clientConfig: {} }), isBlocking: false },
  {
    name: "for deletions",
    given: configure({ rules: [{ apiGroups: [""], operations: ["DELETE"], resources: ["pods"] }] }),
    isBlocking: false,
  },
  {
    name: "for objects with a namespace",
    given: configure({
      rules: [{ apiGroups: ["*"], operations: ["*"], resources: ["*"], scope: "Namespaced" }],
    }),
    isBlocking: true,
  },
  {
    name: "for objects without a namespace",
    given: configure({
      rules: [{ apiGroups: ["*"], operations: ["*"], resources: ["*"], scope: "Cluster" }],
    }),
    isBlocking: false,
  },
  {
    name: "for kinds that the installation lacks",
    given: configure({ rules: [{ apiGroups: ["batch"], operations: ["*"], resources: ["*"] }] }),
    isBlocking: false,
  },
  {
    name: "outside of Patchbay's namespace",
    given: configure({
      namespaceSelector: {
        matchExpressions: [
          { key: "kubernetes.io/metadata.name", operator: "NotIn", values: ["patchbay"] },
        ],
      },
    }),
    isBlocking: false,
  },
  {
    name: "of Patchbay",
    given: configure({}, { "app.kubernetes.io/part-of": "patchbay" }),
    isBlocking: false,
  },
])("a webhook $name", ({ given, isBlocking }) => {
  const want = {
    name: "ValidatingWebhookConfiguration policies, pods.example",
    service: "policy/server",
  };
  expect(findBlockingWebhooks([given], objects, LABELS)).toEqual(isBlocking ? [want] : []);
});

test("marks a webhook whose conditions may exclude the installation", () => {
  const matchConditions = [
    { name: "others", expression: "object.metadata.namespace != 'patchbay'" },
  ];
  const [found] = findBlockingWebhooks([configure({ matchConditions })], objects, LABELS);
  expect(found?.isConditional).toBe(true);
});

interface Attributes {
  readonly verb: string;
  readonly resource: string;
}

function storeThatAllows(isAllowed: (attributes: Attributes) => boolean) {
  const create = (_type: unknown, object: { spec: { resourceAttributes: Attributes } }) =>
    Promise.resolve({ ...object, status: { allowed: isAllowed(object.spec.resourceAttributes) } });
  // Reviews are the only objects that the function creates.
  return { create } as unknown as Parameters<typeof listMissingRights>[0];
}

test("lists the rights that the user lacks on the kinds of the installation", async () => {
  const [all, none] = [storeThatAllows(() => true), storeThatAllows(() => false)];
  expect(await listMissingRights(all, objects)).toEqual([]);
  const missing = await listMissingRights(none, objects);
  expect(missing).toContain("create deployments.apps");
  expect(missing).toContain("update namespaces");
  expect(missing).not.toContain("create pods");
  const some = storeThatAllows(({ verb, resource }) => verb !== "*" && resource !== "clusterroles");
  expect(await listMissingRights(some, objects)).toEqual(
    ["get", "create", "update"].map((verb) => `${verb} clusterroles.rbac.authorization.k8s.io`),
  );
});

test("a pod's account without rights gets unknown findings, and writes nothing", async () => {
  const refuse = () =>
    Promise.reject(new AppError("KUBE_FORBIDDEN", { status: 403, message: "forbidden" }));
  const store = createFakeStore();
  const refusing = {
    ...store,
    find: refuse,
    list: refuse,
    create: refuse,
    update: refuse,
    patch: refuse,
  };
  const client = { store: refusing, requestRaw: refuse } as unknown as Parameters<
    typeof collectInstallFacts
  >[0];
  const facts = await collectInstallFacts(client, { objects, settings: {} }, true);
  const verdicts = judgeBeforeInstall(facts).map(({ verdict }) => verdict);
  expect(new Set(verdicts)).toEqual(new Set(["unknown"]));
  expect(store.calls).toEqual([]);
});

test("a namespace that Helm created is no conflict, another's is", async () => {
  const store = createFakeStore();
  const namespace: KubeObject = {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: "patchbay" },
  };
  const type = {
    group: "",
    version: "v1",
    resource: "namespaces",
    kind: "Namespace",
    namespaced: false,
  };
  store.put(type, namespace);
  const requestRaw = () => Promise.resolve({ status: 200, text: "{}", warnings: [] });
  const collect = (isPodAccount: boolean) =>
    collectInstallFacts({ store, requestRaw }, { objects, settings: {} }, isPodAccount);
  expect((await collect(true)).namesakes).toEqual({ value: [] });
  const { namesakes, plan } = await collect(false);
  expect(namesakes).toMatchObject({
    value: [{ kind: "Namespace", metadata: { name: "patchbay" } }],
  });
  expect(plan).toEqual({ failure: "not tried, because of the objects of another installation" });
});
