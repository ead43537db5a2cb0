// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { customResourceDefinitions } from "./definitions.ts";
import { listSchemaFields } from "../fields/walk.ts";
import { toStructuralSchema, withoutDescriptions } from "./structural-schema.ts";

const FORBIDDEN = ["patternProperties", "~kind", "~optional", "$id", "const", "anyOf"];

function keywordsOf(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.flatMap(keywordsOf);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => [key, ...keywordsOf(inner)]);
}

function child(schema: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    // The tests walk a schema, whose nodes are plain objects.
    (at, key) => (at as Readonly<Record<string, unknown>> | undefined)?.[key],
    schema,
  );
}

/** Where fields are kept that the schema does not know. */
function openPlaces(schema: unknown, path: string): readonly string[] {
  const own = child(schema, ["x-kubernetes-preserve-unknown-fields"]) === true ? [path] : [];
  const properties = child(schema, ["properties"]) ?? {};
  const below = Object.entries(properties).flatMap(([key, value]) =>
    openPlaces(value, path === "" ? key : `${path}.${key}`),
  );
  const items = child(schema, ["items"]);
  return [...own, ...below, ...(items === undefined ? [] : openPlaces(items, `${path}[]`))];
}

describe("custom resource definitions", () => {
  test.each([
    {
      name: "virtualmachines.kubevirt.io",
      short: "vm",
      status: true,
      columns: ["Age", "Status", "Ready"],
    },
    {
      name: "virtualmachineinstances.kubevirt.io",
      short: "vmi",
      status: true,
      columns: [
        "Age", "Phase", "IP", "NodeName", "Ready", "Live-Migratable", "Paused",
        "Ports", "FreePorts",
      ],
    },
    {
      name: "virtualmachineinstancemigrations.kubevirt.io",
      short: "vmim",
      status: true,
      columns: ["Phase", "VMI"],
    },
    { name: "kubevirts.kubevirt.io", short: "kv", status: true, columns: ["Age", "Phase"] },
    {
      name: "network-attachment-definitions.k8s.cni.cncf.io",
      short: "net-attach-def",
      status: true,
      columns: ["Problem", "Node", "Message", "Age"],
    },
  ])("include $name with short name, status and columns", ({ name, short, status, columns }) => {
    const crd = customResourceDefinitions().find((each) => each.metadata.name === name);
    const version = crd?.spec.versions[0];
    expect(crd?.spec.names.shortNames).toContain(short);
    expect(version?.subresources !== undefined).toBe(status);
    expect(version?.additionalPrinterColumns?.map((column) => column.name)).toEqual(columns);
  });

  test("have names, a version and, if declared, a status subresource", () => {
    const [vm, ...others] = customResourceDefinitions();
    expect(vm).toMatchObject({
      apiVersion: "apiextensions.k8s.io/v1",
      kind: "CustomResourceDefinition",
      metadata: { name: "virtualmachines.kubevirt.io" },
      spec: {
        group: "kubevirt.io",
        scope: "Namespaced",
        names: {
          plural: "virtualmachines",
          singular: "virtualmachine",
          kind: "VirtualMachine",
          listKind: "VirtualMachineList",
          shortNames: ["vm", "vms"],
          categories: ["all"],
        },
        versions: [
          {
            name: "v1",
            served: true,
            storage: true,
            schema: {
              openAPIV3Schema: {
                type: "object",
                required: ["spec"],
                properties: {
                  apiVersion: { type: "string" },
                  kind: { type: "string" },
                  metadata: { type: "object" },
                  spec: { type: "object" },
                  status: { type: "object" },
                },
              },
            },
            subresources: { status: {} },
          },
          { name: "v1alpha3", served: true, storage: false, deprecated: true },
          { name: "v1alpha2", served: true, storage: false, deprecated: true },
        ],
        conversion: { strategy: "None" },
      },
    });
    const nad = others.find(({ spec }) => spec.names.shortNames.includes("nad"))?.spec;
    expect(Object.keys(nad?.names ?? {})).not.toContain("categories");
    expect(nad?.names.shortNames).toEqual(["net-attach-def", "nad"]);
    expect(others.slice(-2).map(({ metadata }) => metadata.name)).toEqual([
      "ipamclaims.k8s.cni.cncf.io",
      "multi-networkpolicies.k8s.cni.cncf.io",
    ]);
    const schema = nad?.versions[0]?.schema.openAPIV3Schema;
    expect(Object.keys(schema ?? {})).not.toContain("required");
    expect(Object.keys(schema?.["properties"] ?? {})).toEqual([
      "apiVersion", "kind", "metadata", "spec", "status",
    ]);
  });

  test("have the same schema in each version, with descriptions in the newest version only", () => {
    const [vm] = customResourceDefinitions();
    const [stored, ...older] = vm?.spec.versions ?? [];
    const schemas = older.map(({ schema }) => schema.openAPIV3Schema);
    expect(schemas).toHaveLength(2);
    expect(schemas[0]).toEqual(schemas[1]);
    const paths = (schema: object | undefined): unknown =>
      listSchemaFields(schema ?? {}, "").map((field) => ({ ...field, description: "" }));
    expect(paths(schemas[0])).toEqual(paths(stored?.schema.openAPIV3Schema));
    expect(keywordsOf(schemas[0])).not.toContain("description");
    expect(older[0]?.deprecationWarning).toBe(
      "kubevirt.io/v1alpha3 VirtualMachine is an older version; write apiVersion: kubevirt.io/v1",
    );
    expect(older[0]?.additionalPrinterColumns).toEqual(stored?.additionalPrinterColumns);
    expect(older[0]?.subresources).toEqual({ status: {} });
  });

  test("have one version unless they are KubeVirt's", () => {
    expect(customResourceDefinitions().at(-1)?.spec.versions).toHaveLength(1);
  });

  test("contain only keywords of structural schemas", () => {
    const found = keywordsOf(JSON.parse(JSON.stringify(customResourceDefinitions())));
    expect(found.filter((key) => FORBIDDEN.includes(key))).toEqual([]);
  });

  test("declare interfaces and networks as maps by name, and preserve unknown fields of a VM", () => {
    const schema = customResourceDefinitions()[0]?.spec.versions[0]?.schema.openAPIV3Schema;
    const spec = ["properties", "spec", "properties", "template", "properties", "spec"];
    const networks = child(schema, [...spec, "properties", "networks"]);
    expect(networks).toMatchObject({
      type: "array",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["name"],
      items: { type: "object", required: ["name"] },
    });
  });

  test("declare every field of a VM except Kubernetes' own and foreign status fields", () => {
    const schema = customResourceDefinitions()[0]?.spec.versions[0]?.schema.openAPIV3Schema;
    const open = openPlaces(schema, "");
    const base = "spec.template.spec.";
    expect(open.map((path) => path.replace(base, "")).sort()).toEqual([
      "affinity",
      "domain.devices.interfaces[].cniArgs",
      "domain.launchSecurity.snp",
      "domain.launchSecurity.tdx",
      "spec.dataVolumeTemplates[].metadata",
      "spec.dataVolumeTemplates[].spec",
      "spec.dataVolumeTemplates[].status",
      "spec.template.metadata.managedFields[]",
      "spec.template.metadata.ownerReferences[]",
      "status",
      "status.stateChangeRequests[]",
      "topologySpreadConstraints[]",
      "volumes[].downwardAPI.fields[].resourceFieldRef",
    ]);
  });

  test("fit into the annotation of kubectl apply", () => {
    // Source: Kubernetes TotalAnnotationSizeLimitB.
    const most = 256 * 1024;
    const sizes = customResourceDefinitions().map((crd) => JSON.stringify(crd).length);
    expect(Math.max(...sizes)).toBeLessThan((most * 3) / 4);
  });
});

describe("structural schema", () => {
  test.each<{ name: string; given: object; want: object }>([
    {
      name: "writes a record as additionalProperties",
      given: { type: "object", patternProperties: { "^.*$": { type: "string" } } },
      want: { type: "object", additionalProperties: { type: "string" } },
    },
    {
      name: "omits empty properties and keywords that Kubernetes does not support",
      given: { type: "object", properties: {}, "~optional": true, $id: "x" },
      want: { type: "object" },
    },
    {
      name: "converts the items of lists",
      given: { type: "array", items: { type: "integer", "~kind": "Integer", minimum: 1 } },
      want: { type: "array", items: { type: "integer", minimum: 1 } },
    },
  ])("$name", ({ given: input, want }) => {
    expect(toStructuralSchema(input)).toEqual(want);
  });
});

test("removing descriptions retains a property named description", () => {
  const text = { type: "string", description: "Words." };
  const schema = {
    type: "object",
    description: "All.",
    properties: { description: text, list: { type: "array", items: text, description: "L." } },
    additionalProperties: text,
  };
  expect(withoutDescriptions(schema)).toEqual({
    type: "object",
    properties: { description: { type: "string" }, list: { type: "array", items: { type: "string" } } },
    additionalProperties: { type: "string" },
  });
});
