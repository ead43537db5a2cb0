// SPDX-License-Identifier: Apache-2.0
// Built-in kinds that are little more than their names and columns.
import type { Cause } from "../http/status.ts";
import { invalidValue } from "../meta/causes.ts";
import { pathSegmentFault } from "../meta/names.ts";
import { equalJson, listOf, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { AGE } from "../table/age.ts";
import { type Kind, type KindSketch, type Strategy, defineKind } from "./kind.ts";
import {
  BOOLEAN,
  CONDITIONS,
  FREE,
  INTEGER,
  TEXT,
  listOfObjects,
  listShape,
  objectShape,
} from "./shapes.ts";

function endpointsCell(object: KubeObject): string {
  const all = listOf(object["subsets"]).flatMap((subset) =>
    listOf(valueAt(subset, "addresses")).flatMap((address) =>
      listOf(valueAt(subset, "ports")).map(
        (port) => `${textAt(address, "ip")}:${String(valueAt(port, "port"))}`,
      ),
    ),
  );
  return all.length === 0 ? "<none>" : all.join(",");
}

/** Service accounts; their tokens are not made here. */
const SERVICE_ACCOUNT: Kind = defineKind({
  group: "",
  version: "v1",
  resource: "serviceaccounts",
  kind: "ServiceAccount",
  shortNames: ["sa"],
  strategy: {
    columns: [
      { name: "Secrets", type: "integer", cell: (object) => listOf(object["secrets"]).length },
      AGE,
    ],
    schema: objectShape(
      { secrets: listOfObjects({ name: TEXT }), imagePullSecrets: listOfObjects({ name: TEXT }) },
      "ServiceAccount is an identity for processes that run in a pod.",
    ),
  },
});

const ENDPOINTS: Kind = defineKind({
  group: "",
  version: "v1",
  resource: "endpoints",
  kind: "Endpoints",
  listKind: "EndpointsList",
  shortNames: ["ep"],
  strategy: {
    columns: [{ name: "Endpoints", type: "string", cell: endpointsCell }, AGE],
    schema: objectShape(
      {
        subsets: listOfObjects({
          addresses: listOfObjects({ ip: TEXT, nodeName: TEXT, targetRef: FREE }),
          notReadyAddresses: listOfObjects({ ip: TEXT }),
          ports: listOfObjects({ name: TEXT, port: INTEGER, protocol: TEXT }),
        }),
      },
      "Endpoints is a collection of addresses that implement a service.",
    ),
  },
});

const RULES = listOfObjects({
  apiGroups: listShape(TEXT),
  resources: listShape(TEXT),
  resourceNames: listShape(TEXT),
  verbs: listShape(TEXT),
  nonResourceURLs: listShape(TEXT),
});

function rbac(
  sketch: Pick<KindSketch, "resource" | "kind" | "namespaced">,
  own: Partial<Strategy>,
): Kind {
  return defineKind({
    group: "rbac.authorization.k8s.io",
    version: "v1",
    ...sketch,
    strategy: { validateName: pathSegmentFault, ...own },
  });
}

function roleRefChange(object: KubeObject, current: KubeObject): Cause[] {
  return equalJson(object["roleRef"], current["roleRef"])
    ? []
    : [invalidValue("roleRef", object["roleRef"], "cannot change roleRef")];
}

const ROLE: Partial<Strategy> = {
  columns: [
    { name: "Created At", type: "date", cell: (object) => object.metadata.creationTimestamp },
  ],
  schema: objectShape({ rules: RULES, aggregationRule: FREE }, "A list of rules."),
};

const BINDING: Partial<Strategy> = {
  validateUpdate: roleRefChange,
  columns: [
    {
      name: "Role",
      type: "string",
      cell: (object) => `${textAt(object, "roleRef", "kind")}/${textAt(object, "roleRef", "name")}`,
    },
    AGE,
  ],
  schema: objectShape(
    {
      roleRef: objectShape({ apiGroup: TEXT, kind: TEXT, name: TEXT }),
      subjects: listOfObjects({ apiGroup: TEXT, kind: TEXT, name: TEXT, namespace: TEXT }),
    },
    "Gives a role to subjects.",
  ),
};

const WEBHOOKS = listOfObjects({
  name: TEXT,
  clientConfig: objectShape({ url: TEXT, service: FREE, caBundle: TEXT }),
  rules: listOfObjects({
    operations: listShape(TEXT),
    apiGroups: listShape(TEXT),
    apiVersions: listShape(TEXT),
    resources: listShape(TEXT),
    scope: TEXT,
  }),
  failurePolicy: TEXT,
  matchPolicy: TEXT,
  sideEffects: TEXT,
  timeoutSeconds: INTEGER,
  reinvocationPolicy: TEXT,
  namespaceSelector: FREE,
  objectSelector: FREE,
  admissionReviewVersions: listShape(TEXT),
});

const WEBHOOK_DEFAULTS = {
  failurePolicy: "Fail",
  matchPolicy: "Equivalent",
  timeoutSeconds: 10,
  namespaceSelector: {},
  objectSelector: {},
};

function webhookKind(
  resource: string,
  kind: string,
  extra: Readonly<Record<string, unknown>>,
): Kind {
  return defineKind({
    group: "admissionregistration.k8s.io",
    version: "v1",
    resource,
    kind,
    namespaced: false,
    strategy: {
      hasGeneration: true,
      applyDefaults: (object) => {
        object["webhooks"] = listOf(object["webhooks"]).map((webhook) => ({
          ...WEBHOOK_DEFAULTS,
          ...extra,
          ...(typeof webhook === "object" ? webhook : {}),
        }));
      },
      columns: [
        { name: "Webhooks", type: "integer", cell: (object) => listOf(object["webhooks"]).length },
        AGE,
      ],
      schema: objectShape({ webhooks: WEBHOOKS }, "Describes admission webhooks."),
    },
  });
}

const API_SERVICE: Kind = defineKind({
  group: "apiregistration.k8s.io",
  version: "v1",
  resource: "apiservices",
  kind: "APIService",
  namespaced: false,
  strategy: {
    hasStatus: true,
    columns: [
      {
        name: "Service",
        type: "string",
        cell: (object) =>
          textAt(object, "spec", "service", "name") === ""
            ? "Local"
            : `${textAt(object, "spec", "service", "namespace")}/${textAt(object, "spec", "service", "name")}`,
      },
      {
        name: "Available",
        type: "string",
        cell: (object) => {
          const available = listOf(valueAt(object, "status", "conditions")).find(
            (condition) => textAt(condition, "type") === "Available",
          );
          const status = textAt(available, "status");
          return status === "True"
            ? "True"
            : `${status || "Unknown"} (${textAt(available, "reason")})`;
        },
      },
      AGE,
    ],
    schema: objectShape(
      {
        spec: objectShape({
          group: TEXT,
          version: TEXT,
          service: FREE,
          caBundle: TEXT,
          insecureSkipTLSVerify: BOOLEAN,
          groupPriorityMinimum: INTEGER,
          versionPriority: INTEGER,
        }),
        status: objectShape({ conditions: CONDITIONS }),
      },
      "APIService represents a server for a group and version.",
    ),
  },
});

/** Kinds that are objects and nothing more. */
export const PLAIN_KINDS: readonly Kind[] = [
  SERVICE_ACCOUNT,
  ENDPOINTS,
  rbac({ resource: "roles", kind: "Role" }, ROLE),
  rbac({ resource: "rolebindings", kind: "RoleBinding" }, BINDING),
  rbac({ resource: "clusterroles", kind: "ClusterRole", namespaced: false }, ROLE),
  rbac({ resource: "clusterrolebindings", kind: "ClusterRoleBinding", namespaced: false }, BINDING),
  webhookKind("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", {
    reinvocationPolicy: "Never",
  }),
  webhookKind("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", {}),
  API_SERVICE,
];
