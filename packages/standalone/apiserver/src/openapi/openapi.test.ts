// SPDX-License-Identifier: Apache-2.0
// OpenAPI documents of kinds, in v2, in v3 and as protobuf.
import { expect, test } from "vitest";
import { toKinds } from "../custom/custom-kind.ts";
import { CONFIG_MAP } from "../kinds/config/config-map.ts";
import type { Kind } from "../kinds/kind.ts";
import { LEASE, NODE } from "../kinds/cluster/node.ts";
import { POD } from "../kinds/workload/pod.ts";
import { REVIEW_KINDS } from "../kinds/access/rbac.ts";
import { asFields, valueAt } from "../objects/json.ts";
import { typeShape } from "../shapes/shape.ts";
import { widgetDefinition } from "../testing/objects.ts";
import {
  buildDefinitions,
  documentAddress,
  buildVersionPath,
  toIndex,
  toOpenApi3,
  toSwagger,
} from "./documents.ts";
import { findDescription, shapeDefinitions, typeDefinitionName } from "./shape-definitions.ts";

const SCHEMA = {
  type: "object",
  description: "A widget.",
  unheard: 1,
  "x-kubernetes-validations": [],
  required: ["spec"],
  properties: {
    metadata: { type: "string" },
    apiVersion: { type: "string", description: "own" },
    spec: {
      type: "object",
      nullable: true,
      default: {},
      properties: {
        list: { type: "array", items: { type: "string", id: "x", default: "a" } },
        map: { type: "object", additionalProperties: { type: "integer", id: "x" } },
        any: { type: "object", additionalProperties: true },
        one: { oneOf: [{ type: "string", id: "x" }], not: { type: "integer", id: "x" } },
        open: {
          type: "object",
          required: ["a"],
          properties: { a: { type: "string" } },
          "x-kubernetes-preserve-unknown-fields": true,
        },
      },
    },
  },
};

function widgetKind(): Kind {
  const versions = [
    { name: "v1", served: true, storage: true, schema: { openAPIV3Schema: SCHEMA } },
  ];
  const [kind] = toKinds(widgetDefinition({ versions }), 1);
  if (kind === undefined) {
    throw new Error("the definition defines no kind");
  }
  return kind;
}

const WIDGET = widgetKind();
const GVK = "x-kubernetes-group-version-kind";
const META = "io.k8s.apimachinery.pkg.apis.meta.v1";
const texts = {
  apiVersion: { type: "string", description: "Group and version: test.io/v1." },
  kind: { type: "string", description: "Kind of the object." },
};

test("a v3 custom kind has the client-visible schema and the server's metadata", () => {
  expect(buildDefinitions([WIDGET], "v3")["io.test.v1.Widget"]).toEqual({
    type: "object",
    description: "A widget.",
    "x-kubernetes-validations": [],
    required: ["spec"],
    properties: {
      ...texts,
      metadata: { $ref: `#/components/schemas/${META}.ObjectMeta` },
      spec: {
        type: "object",
        nullable: true,
        default: {},
        properties: {
          list: { type: "array", items: { type: "string", default: "a" } },
          map: { type: "object", additionalProperties: { type: "integer" } },
          any: { type: "object", additionalProperties: true },
          one: { oneOf: [{ type: "string" }], not: { type: "integer" } },
          open: SCHEMA.properties.spec.properties.open,
        },
      },
    },
    [GVK]: [{ group: "test.io", version: "v1", kind: "Widget" }],
  });
});

test("v2 omits unsupported keywords, and properties of objects with additional fields", () => {
  expect(valueAt(buildDefinitions([WIDGET], "v2"), "io.test.v1.Widget", "properties")).toEqual({
    ...texts,
    metadata: { $ref: `#/definitions/${META}.ObjectMeta` },
    spec: {
      type: "object",
      properties: {
        list: { type: "array", items: { type: "string" } },
        map: { type: "object", additionalProperties: { type: "integer" } },
        any: { type: "object", additionalProperties: true },
        one: {},
        open: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
      },
    },
  });
});

test("defines lists for kinds that support list", () => {
  const [review] = REVIEW_KINDS;
  const kinds = review === undefined ? [] : [CONFIG_MAP, WIDGET, review];
  const definitions = buildDefinitions(kinds, "v3");
  expect(definitions["io.k8s.api.core.v1.ConfigMapList"]).toEqual({
    type: "object",
    description: "A list of ConfigMap.",
    required: ["items"],
    properties: {
      apiVersion: { type: "string", description: "Group and version: v1." },
      kind: texts.kind,
      metadata: { $ref: `#/components/schemas/${META}.ListMeta` },
      items: {
        type: "array",
        items: { $ref: "#/components/schemas/io.k8s.api.core.v1.ConfigMap" },
      },
    },
    [GVK]: [{ group: "", version: "v1", kind: "ConfigMapList" }],
  });
  expect(Object.keys(definitions).filter((name) => name.endsWith("List"))).toEqual([
    "io.k8s.api.core.v1.ConfigMapList",
    "io.test.v1.WidgetList",
  ]);
  expect(definitions).toHaveProperty(["io.k8s.api.authentication.v1.SelfSubjectReview"]);
});

test("also defines bodies of subresources", () => {
  const definitions = buildDefinitions([POD], "v2");
  expect(definitions).toHaveProperty(["io.k8s.api.policy.v1.Eviction"]);
  expect(definitions).toHaveProperty(["io.k8s.api.core.v1.Binding"]);
  expect(definitions).not.toHaveProperty(["io.k8s.api.core.v1.ConfigMap"]);
});

test.each([
  { type: "core.v1.Pod", want: "io.k8s.api.core.v1.Pod" },
  { type: "meta.v1.LabelSelector", want: `${META}.LabelSelector` },
  {
    type: "apiregistration.v1.APIService",
    want: "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
  },
])("defines the type $type as $want", ({ type, want }) => {
  expect(typeDefinitionName(typeShape(type))).toBe(want);
});

function fieldOf(type: string, field: string, version: "v2" | "v3") {
  const definitions = Object.fromEntries(shapeDefinitions([typeShape(type)], version));
  const own = valueAt(definitions, typeDefinitionName(typeShape(type)), "properties", field);
  const { description, ...schema } = asFields(own);
  return { description, schema };
}

test.each<{ type: string; field: string; v2: object; v3?: object }>([
  { type: "core.v1.PodSpec", field: "hostNetwork", v2: { type: "boolean" } },
  { type: "core.v1.PodSpec", field: "priority", v2: { type: "integer", format: "int32" } },
  {
    type: "core.v1.PodSpec",
    field: "nodeSelector",
    v2: { type: "object", additionalProperties: { type: "string" } },
  },
  {
    type: "core.v1.PodSpec",
    field: "securityContext",
    v2: { $ref: "#/definitions/io.k8s.api.core.v1.PodSecurityContext" },
    v3: { $ref: "#/components/schemas/io.k8s.api.core.v1.PodSecurityContext" },
  },
  {
    type: "core.v1.PodSpec",
    field: "tolerations",
    v2: { type: "array", items: { $ref: "#/definitions/io.k8s.api.core.v1.Toleration" } },
    v3: { type: "array", items: { $ref: "#/components/schemas/io.k8s.api.core.v1.Toleration" } },
  },
  {
    type: "core.v1.PodSpec",
    field: "volumes",
    v2: {
      type: "array",
      items: { $ref: "#/definitions/io.k8s.api.core.v1.Volume" },
      "x-kubernetes-patch-merge-key": "name",
      "x-kubernetes-patch-strategy": "merge,retainKeys",
    },
    v3: {
      type: "array",
      items: { $ref: "#/components/schemas/io.k8s.api.core.v1.Volume" },
      "x-kubernetes-patch-merge-key": "name",
      "x-kubernetes-patch-strategy": "merge,retainKeys",
    },
  },
  {
    type: "meta.v1.ObjectMeta",
    field: "finalizers",
    v2: { type: "array", items: { type: "string" }, "x-kubernetes-patch-strategy": "merge" },
  },
  {
    type: "core.v1.ServicePort",
    field: "targetPort",
    v2: { type: "string", format: "int-or-string" },
    v3: { oneOf: [{ type: "integer" }, { type: "string" }], format: "int-or-string" },
  },
])("$field of $type", ({ type, field, v2, v3 = v2 }) => {
  expect(fieldOf(type, field, "v2").schema).toEqual(v2);
  expect(fieldOf(type, field, "v3").schema).toEqual(v3);
});

test("definitions of types contain required fields and kinds, and are sorted", () => {
  const all = shapeDefinitions([typeShape("core.v1.PodSpec"), typeShape("core.v1.Pod")], "v3");
  const names = all.map(([name]) => name);
  expect(names).toEqual([...new Set(names)].sort());
  const definitions = Object.fromEntries(all);
  expect(definitions["io.k8s.api.core.v1.PodSpec"]).toMatchObject({ required: ["containers"] });
  expect(definitions["io.k8s.api.core.v1.Pod"]).not.toHaveProperty("required");
  expect(definitions["io.k8s.api.core.v1.Pod"]).toHaveProperty(GVK, [
    { group: "", version: "v1", kind: "Pod" },
  ]);
  expect(definitions["io.k8s.api.core.v1.PodSpec"]).not.toHaveProperty(GVK);
});

test.each([
  { name: "core.v1.Pod", want: "Containers that run together on a node." },
  { name: "core.v1.PodSpec", want: "What the pod runs." },
  { name: "core.v1.ServiceSpec", want: "Desired state." },
  { name: "core.v1.PodStatus", want: expect.stringMatching(/^Observed state/) as string },
  { name: "core.v1.Service.spec", want: "Desired state." },
  { name: "core.v1.Service.kind", want: expect.stringMatching(/^Kind of the object/) as string },
  { name: "core.v1.PodSpec.volumes", want: "Volumes that containers can mount." },
  { name: "core.v1.ServicePort", want: undefined },
  { name: "core.v1.ServicePort.port", want: undefined },
  { name: "core.v1.PodSpecial", want: undefined },
  { name: "Spec", want: undefined },
])("the description of $name is $want", ({ name, want }) => {
  expect(findDescription(name)).toEqual(want);
});

const V2_PARAMETERS = ["dryRun", "fieldValidation"].map((name) => ({
  name,
  in: "query",
  type: "string",
}));

test("the v2 document has operations on cluster-scoped and namespaced paths", () => {
  const document = toSwagger([CONFIG_MAP, NODE]);
  expect(document).toMatchObject({ swagger: "2.0", info: { title: "Kubernetes" } });
  const paths = asFields(document["paths"]);
  expect(Object.keys(paths)).toEqual([
    "/api/v1/namespaces/{namespace}/configmaps",
    "/api/v1/namespaces/{namespace}/configmaps/{name}",
    "/api/v1/nodes",
    "/api/v1/nodes/{name}",
  ]);
  const operation = (action: string, parameters: unknown) => ({
    "x-kubernetes-action": action,
    [GVK]: { group: "", version: "v1", kind: "Node" },
    parameters,
    responses: { "200": { description: "OK" } },
  });
  expect(paths["/api/v1/nodes"]).toEqual({
    get: operation("list", []),
    post: operation("post", V2_PARAMETERS),
  });
  expect(paths["/api/v1/nodes/{name}"]).toEqual({
    get: operation("get", []),
    put: operation("put", V2_PARAMETERS),
    patch: operation("patch", V2_PARAMETERS),
    delete: operation("delete", V2_PARAMETERS),
  });
  expect(document["definitions"]).toHaveProperty(["io.k8s.api.core.v1.Node"]);
});

test("the v3 document has parameters and definitions in the v3 places", () => {
  const document = toOpenApi3([LEASE]);
  expect(document).toMatchObject({ openapi: "3.0.0" });
  const path = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases";
  expect(valueAt(document, "paths", path, "post", "parameters")).toEqual(
    ["dryRun", "fieldValidation"].map((name) => ({
      name,
      in: "query",
      schema: { type: "string" },
    })),
  );
  expect(valueAt(document, "components", "schemas")).toHaveProperty([
    "io.k8s.api.coordination.v1.Lease",
  ]);
});

test.each([
  { given: { group: "", version: "v1" }, want: "api/v1" },
  { given: { group: "x.io", version: "v2" }, want: "apis/x.io/v2" },
])("the path of $given is $want", ({ given, want }) => {
  expect(buildVersionPath(given)).toBe(want);
});

test("the index names one document per group version, addressed by its hash", () => {
  const address = expect.stringMatching(
    /^\/openapi\/v3\/apis\/coordination\.k8s\.io\/v1\?hash=[0-9A-F]{32}$/,
  ) as string;
  const { paths } = toIndex([CONFIG_MAP, LEASE, NODE]);
  expect(paths).toEqual({
    "api/v1": { serverRelativeURL: documentAddress("api/v1", [CONFIG_MAP, NODE]) },
    "apis/coordination.k8s.io/v1": { serverRelativeURL: address },
  });
});

test("the address of a document changes only with its kinds", () => {
  const [one, two] = [widgetKind(), { ...widgetKind(), kind: "Gadget" }];
  const addresses = [[one], [one, two], [one, LEASE], [two], [one, two], [one], []].map((kinds) =>
    documentAddress("p", kinds),
  );
  expect(new Set(addresses).size).toBe(5);
  expect(addresses[4]).toBe(addresses[1]);
  expect(addresses[5]).toBe(addresses[0]);
  expect(documentAddress("p", [widgetKind()])).toBe(addresses[0]);
});
