// SPDX-License-Identifier: Apache-2.0
// The chart's files: values, their schema, and the part of the template language that the templates use.
import type { KubeObject } from "@patchbay/api/kubernetes";
import { Ajv } from "ajv";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { listRights } from "../../packages/common/manifests/src/testing.ts";
import { BEFORE_REMOVAL, buildHookRights, PREFLIGHT } from "./additions.ts";
import { readBase } from "./base.ts";
import { listChartValues, renderChart, renderSchema } from "./chart.ts";

const base = await readBase();
const chart = renderChart(base, "0.2.0");
const templates = [...chart].filter(([path]) => path.startsWith("templates/"));

function read(path: string, files: ReadonlyMap<string, string> = chart): unknown {
  return parse(files.get(path) ?? "", { version: "1.1" });
}

/** Actions that Go's text/template has without functions of Helm, and the four functions that tests/contract/manifests/chart imitates. */
const ACTIONS: readonly RegExp[] = [
  /^toJson \.(?:Values|Release)(?:\.\w+)+$/,
  /^toJson \.$/,
  /^fail "[^"]+"$/,
  /^template "patchbay\.images\.\w+" \.$/,
  /^define "patchbay\.images\.\w+"$/,
  /^range \.Values(?:\.\w+)+$/,
  /^(?:else )?if (?:\.Values|\.Release)(?:\.\w+)+$/,
  /^if ne \(printf "%v" \.Values\.\w+\.replicas\) "1"$/,
  /^if ne \.Release\.Namespace "patchbay"$/,
  /^if semverCompare "(?:<|>=)1\.\d+-0" \.Capabilities\.KubeVersion\.Version$/,
  /^if or \(eq \.Values\.openshift\.scc "always"\) \(and \(eq \.Values\.openshift\.scc "auto"\) \(\.Capabilities\.APIVersions\.Has "security\.openshift\.io\/v1"\)\)$/,
  /^\.(?:Values|Chart)(?:\.\w+)+$/,
  /^\.$/,
  /^"\{\{"$/,
  /^else$/,
  /^end$/,
];

test("templates use only actions that the test of their result knows", () => {
  const actions = templates.flatMap(([path, text]) =>
    [...text.matchAll(/\{\{-? ("\{\{"|[^}]*?) -?\}\}/g)].map(([, action = ""]) => ({
      path,
      action,
    })),
  );
  expect(actions.length).toBeGreaterThan(400);
  expect(actions.filter(({ action }) => !ACTIONS.some((one) => one.test(action)))).toEqual([]);
});

test("has a template for each manifest of the base, and the chart's own", () => {
  const names = templates.map(([path]) => path.replace("templates/", ""));
  expect(names).toEqual(
    expect.arrayContaining([
      ...base.sources.map(({ path }) => path.replaceAll("/", "-")),
      "kubevirt.yaml",
      "openshift.yaml",
      "hooks.yaml",
      "NOTES.txt",
    ]),
  );
});

/** Plural of a kind in lower case, in kubectl's notation with its group. */
function resourceOf({ apiVersion, kind }: KubeObject): string {
  const [group] = apiVersion.includes("/") ? apiVersion.split("/") : [];
  const lower = kind.toLowerCase();
  const plural = lower.replace(/y$/, "ie").replace(/(s)$/, "$1e").concat("s");
  return group === undefined ? plural : `${plural}.${group}`;
}

test("the checks may read each object that the installation creates, and change nothing", () => {
  const rights = listRights(buildHookRights(PREFLIGHT));
  expect(rights.filter(({ verb }) => !["get", "list"].includes(verb))).toEqual([]);
  const missing = base.sources
    .flatMap(({ objects }) => objects)
    .filter(({ kind }) => kind !== "Namespace")
    .filter((object) => {
      const { namespace, name } = object.metadata;
      return !rights.some(
        (right) =>
          right.verb === "get" &&
          right.resource === resourceOf(object) &&
          (right.namespace === undefined || right.namespace === namespace) &&
          (right.name === undefined || right.name === name),
      );
    });
  expect(missing.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).toEqual([]);
});

test("the Job before a removal may list VMs in all namespaces, and mark pods of its own only", () => {
  const rights = listRights(buildHookRights(BEFORE_REMOVAL));
  const printed = rights.map(({ verb, resource, namespace = "*" }) =>
    [verb, resource, namespace].join(" "),
  );
  expect(printed.toSorted()).toEqual([
    "list customresourcedefinitions.apiextensions.k8s.io *",
    "list pods patchbay",
    "list virtualmachineinstances.kubevirt.io *",
    "list virtualmachines.kubevirt.io *",
    "patch pods patchbay",
  ]);
});

test("Chart.yaml has the version, and the oldest supported Kubernetes", () => {
  expect(read("Chart.yaml")).toMatchObject({
    apiVersion: "v2",
    name: "patchbay",
    version: "0.2.0",
    appVersion: "0.2.0",
    kubeVersion: ">=1.26.0-0",
  });
});

test.each(["v0.2.0", "0.2", "latest", ""])("rejects the version '%s'", (version) => {
  expect(() => renderChart(base, version)).toThrow("is no semantic version such as 0.2.0");
});

test("names images by the registry and digests of a release", () => {
  const digest = `sha256:${"a".repeat(64)}`;
  const values = read(
    "values.yaml",
    renderChart(base, "0.2.0", {
      registry: "registry.example/a",
      digests: { virtLauncher: digest },
    }),
  );
  expect(values).toMatchObject({
    images: {
      registry: "registry.example/a",
      patchbay: { repository: "patchbay", digest: "" },
      virtLauncher: { repository: "virt-launcher", digest, tag: "" },
    },
  });
});

test("values.yaml explains each value in lines of at most 100 characters", () => {
  const text = chart.get("values.yaml") ?? "";
  const comments = text.split("\n").filter((line) => /^ *#/.test(line));
  expect(comments.length).toBeGreaterThanOrEqual(listChartValues(base).length);
  expect(comments.filter((line) => line.length > 110)).toEqual([]);
});

describe("the schema of the values", () => {
  const ajv = new Ajv({ allErrors: true, strictTypes: false, allowUnionTypes: true });
  const validate = ajv.compile(JSON.parse(chart.get("values.schema.json") ?? "") as object);

  function problems(values: unknown): readonly string[] {
    if (validate(values)) return [];
    return (validate.errors ?? []).map(({ instancePath, message = "", params }) =>
      [instancePath, message, ...Object.values(params as object).map(String)].join(" "),
    );
  }

  test("is that of the listed values", () => {
    const text = JSON.stringify(renderSchema(listChartValues(base)));
    expect(JSON.parse(chart.get("values.schema.json") ?? "")).toEqual(JSON.parse(text));
  });

  test.each([
    { what: "the defaults", values: read("values.yaml") },
    { what: "no values", values: {} },
    { what: "values of a chart that includes this one", values: { global: { any: "value" } } },
    {
      what: "quantities as numbers",
      values: { virtApi: { resources: { limits: { cpu: 2, memory: "1Gi" } } } },
    },
    {
      what: "a tenant policy",
      values: { configuration: { network: { tenantPolicy: { masters: ["eth1", "!eth*"] } } } },
    },
    {
      what: "a field of KubeVirt's configuration that Patchbay ignores",
      values: { configuration: { imagePullPolicy: "Always" } },
    },
    { what: "a registry with port and path", values: { images: { registry: "r.example:5000/a" } } },
  ])("accepts $what", ({ values }) => {
    expect(problems(values)).toEqual([]);
  });

  test.each([
    {
      what: "an unknown value",
      values: { virtAPI: { replicas: 2 } },
      want: [" must NOT have additional properties virtAPI"],
    },
    {
      what: "an unknown value in a group",
      values: { netAgent: { modes: "alone" } },
      want: ["/netAgent must NOT have additional properties modes"],
    },
    {
      what: "an unknown mode",
      values: { netAgent: { mode: "single" } },
      want: [
        "/netAgent/mode must be equal to one of the allowed values alone,multus,multus-dynamic",
      ],
    },
    {
      what: "no replica",
      values: { virtApi: { replicas: 0 } },
      want: ["/virtApi/replicas must be >= 1 >= 1"],
    },
    {
      what: "a relative path",
      values: { netAgent: { cniBinDirs: ["opt/cni/bin"] } },
      want: [
        '/netAgent/cniBinDirs/0 must match pattern "^(/[A-Za-z0-9._-]+)+$" ^(/[A-Za-z0-9._-]+)+$',
      ],
    },
    {
      what: "a tag that YAML reads as a number",
      values: { images: { patchbay: { tag: 1 } } },
      want: ["/images/patchbay/tag must be string string"],
    },
    {
      what: "an unknown list of the tenant policy",
      values: { configuration: { network: { tenantPolicy: { master: ["eth1"] } } } },
      want: ["/configuration/network/tenantPolicy must NOT have additional properties master"],
    },
    {
      what: "an incomplete digest",
      values: { images: { sidecarShim: { digest: "sha256:12" } } },
      want: [
        '/images/sidecarShim/digest must match pattern "^(sha256:[0-9a-f]{64})?$" ^(sha256:[0-9a-f]{64})?$',
      ],
    },
  ])("rejects $what", ({ values, want }) => {
    expect(problems(values)).toEqual(want);
  });
});
