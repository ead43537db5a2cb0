// SPDX-License-Identifier: Apache-2.0
// The Helm chart renders the objects of the base, and each value changes what it names and nothing else.
import { names } from "@patchbay/api";
import { isJsonObject } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";
import {
  forServerVersion,
  parseManifests,
  readManifests,
  withConditions,
  withSettings,
} from "@patchbay/manifests";
import { createFiles } from "@patchbay/os";
import { describe, expect, test } from "vitest";
import { readBase } from "../../../../hack/chart/base.ts";
import { listChartValues, renderChart } from "../../../../hack/chart/chart.ts";
import { mergeValues, renderChartWithKubectl, type ChartInput } from "./render-chart.ts";
import { VALUE_CASES } from "./value-cases.ts";

const VERSION = "0.2.0";
const HELM_LABELS: readonly string[] = [
  "helm.sh/chart",
  "app.kubernetes.io/instance",
  "app.kubernetes.io/managed-by",
  "app.kubernetes.io/version",
];
const IMAGES = {
  image: `localhost/patchbay/patchbay:${VERSION}`,
  launcherImage: `localhost/patchbay/virt-launcher:${VERSION}`,
  sidecarShimImage: `localhost/patchbay/sidecar-shim:${VERSION}`,
};
const KUBEVIRT = {
  apiVersion: "kubevirt.io/v1",
  kind: "KubeVirt",
  metadata: {
    name: "kubevirt",
    namespace: "patchbay",
    labels: { [names.PART_OF_LABEL]: names.PRODUCT },
  },
  spec: {},
};

const base = await readBase();
const chart = renderChart(base, VERSION);
const manifests = parseManifests(await readManifests(createFiles(), "base"));

function nameOf({ kind, metadata }: KubeObject): string {
  const { namespace, name } = metadata;
  return `${kind} ${namespace === undefined ? "" : `${namespace}/`}${name}`;
}

function byName(objects: readonly KubeObject[]): ReadonlyMap<string, KubeObject> {
  const entries = objects.map((object): [string, KubeObject] => [nameOf(object), object]);
  expect(new Set(entries.map(([name]) => name)).size).toBe(entries.length);
  return new Map(entries.sort(([one], [other]) => (one < other ? -1 : 1)));
}

function withoutHelmLabels(object: KubeObject): KubeObject {
  const labels = Object.entries(object.metadata.labels ?? {});
  expect(labels.map(([name]) => name)).toEqual(expect.arrayContaining([...HELM_LABELS]));
  const own = labels.filter(([name]) => !HELM_LABELS.includes(name));
  return { ...object, metadata: { ...object.metadata, labels: Object.fromEntries(own) } };
}

function isHook({ metadata }: KubeObject): boolean {
  return metadata.annotations?.["helm.sh/hook"] !== undefined;
}

/** What `patchbay install` creates with the images of the chart, except CRDs and the namespace. */
function installed(
  settings: Parameters<typeof withSettings>[1],
  kubernetesMinor: number,
): readonly KubeObject[] {
  const objects = withSettings(manifests, { ...IMAGES, ...settings }).filter(
    ({ kind }) => kind !== "CustomResourceDefinition" && kind !== "Namespace",
  );
  const gitVersion = `v1.${String(kubernetesMinor)}.0`;
  const adapted = forServerVersion(objects, JSON.stringify({ gitVersion }));
  const conditioned = kubernetesMinor >= 28 ? adapted.map(withConditions) : adapted;
  return [...conditioned, KUBEVIRT];
}

describe("equals patchbay install", () => {
  const cases: readonly (ChartInput & {
    readonly what: string;
    readonly settings: Parameters<typeof withSettings>[1];
  })[] = [
    { what: "on Kubernetes 1.36", settings: {} },
    {
      what: "on Kubernetes 1.29, which has no field for AppArmor",
      kubernetesMinor: 29,
      settings: {},
    },
    { what: "on Kubernetes 1.27, without match conditions", kubernetesMinor: 27, settings: {} },
    {
      what: "with --pod-creation",
      values: { netAgent: { podCreation: true } },
      settings: { podCreation: true },
    },
    {
      what: "with --pod-creation on Kubernetes 1.26",
      kubernetesMinor: 26,
      values: { netAgent: { podCreation: true } },
      settings: { podCreation: true },
    },
    {
      what: "with --mode, --dataplane-group and --kubelet-root-dir",
      values: {
        netAgent: { mode: "alone" },
        virtHandler: { dataplaneGroup: 4_000_000 },
        kubeletRootDir: "/data/kubelet",
      },
      settings: { mode: "alone", dataplaneGroup: 4_000_000, kubeletRootDir: "/data/kubelet" },
    },
  ];
  const rendered = renderChartWithKubectl(chart, cases);

  test.each(cases.map((each, index) => ({ ...each, index })))(
    "$what",
    async ({ index, settings, kubernetesMinor = 36 }) => {
      const { objects = [], failures } = (await rendered)[index] ?? {};
      expect(failures).toEqual([]);
      const own = objects.filter((object) => !isHook(object)).map(withoutHelmLabels);
      expect(byName(own)).toEqual(byName(installed(settings, kubernetesMinor)));
    },
  );
});

test("crds contains the CRDs that patchbay install creates", () => {
  const texts = [...chart].filter(([path]) => path.startsWith("crds/"));
  const definitions = parseManifests(texts.map(([path, text]) => ({ path, text })));
  const wanted = manifests.filter(({ kind }) => kind === "CustomResourceDefinition");
  expect(byName(definitions)).toEqual(byName(wanted));
});

/** Values of all fields of the objects, for example `Deployment patchbay/virt-api spec.replicas: 2`. */
function listFields(objects: readonly KubeObject[]): readonly string[] {
  const fields = (value: unknown, path: string): readonly string[] => {
    const entries = typeof value === "object" && value !== null ? Object.entries(value) : [];
    if (entries.length === 0) return [`${path}: ${JSON.stringify(value)}`];
    // Entries of lists are compared without their position, which an added entry would change.
    const join = (name: string): string =>
      Array.isArray(value) ? `${path}[]` : `${path}${path.endsWith(" ") ? "" : "."}${name}`;
    return entries.flatMap(([name, field]) => fields(field, join(name)));
  };
  return objects.flatMap((object) => fields(object, `${nameOf(object)} `));
}

function differences(
  before: readonly KubeObject[],
  after: readonly KubeObject[],
): readonly string[] {
  const [old, changed] = [listFields(before), listFields(after)].map((list) => new Set(list));
  return [
    ...[...(old ?? [])].filter((field) => changed?.has(field) !== true).map((one) => `- ${one}`),
    ...[...(changed ?? [])].filter((field) => old?.has(field) !== true).map((one) => `+ ${one}`),
  ].toSorted();
}

describe("each value changes only what it names", () => {
  const inputs = VALUE_CASES.flatMap(({ given = {}, values, ...input }): ChartInput[] => [
    { ...input, values: given },
    { ...input, values: mergeValues(given, values) },
  ]);
  const rendered = renderChartWithKubectl(chart, inputs);

  test.each(VALUE_CASES.map((each, index) => ({ ...each, index })))(
    "$what",
    async ({ index, adds = [], removes = [], changes = [] }) => {
      const pair = (await rendered).slice(2 * index, 2 * index + 2);
      expect(pair.flatMap(({ failures }) => failures)).toEqual([]);
      const none: ReadonlyMap<string, KubeObject> = new Map();
      const [before = none, after = none] = pair.map(({ objects }) => byName(objects));
      const missing = (one: typeof none, other: typeof none): readonly string[] =>
        [...other.keys()].filter((name) => !one.has(name));
      expect(missing(before, after)).toEqual(adds);
      expect(missing(after, before)).toEqual(removes);
      const common = (one: typeof none, other: typeof none): readonly KubeObject[] =>
        [...one].filter(([name]) => other.has(name)).map(([, object]) => object);
      expect(differences(common(before, after), common(after, before))).toEqual(changes.toSorted());
    },
  );

  test("every value has a case", () => {
    const isSet = (values: unknown, [first = "", ...rest]: readonly string[]): boolean =>
      isJsonObject(values) && first in values && (rest.length === 0 || isSet(values[first], rest));
    const missing = listChartValues(base)
      .map(({ name }) => name)
      .filter((name) => !VALUE_CASES.some(({ values }) => isSet(values, name.split("."))));
    expect(missing).toEqual(["netAgent.podCreation"]);
  });
});

test("refuses another namespace, and names the flag", async () => {
  const [rendered] = await renderChartWithKubectl(chart, [{ namespace: "default" }]);
  expect(rendered?.failures).toEqual([
    "Patchbay works only in the namespace patchbay. Add: --namespace patchbay",
  ]);
});

test("the notes name the CRDs after an upgrade, and the rights of Prometheus with a ServiceMonitor", async () => {
  const [installation, upgrade, monitored] = await renderChartWithKubectl(chart, [
    {},
    { isUpgrade: true },
    { values: { monitoring: { serviceMonitor: true } } },
  ]);
  expect(installation?.notes).not.toMatch(/crds|prometheus/);
  expect(upgrade?.notes).toContain(`tar -xzf patchbay-${VERSION}.tgz patchbay/crds`);
  expect(monitored?.notes).toContain("--clusterrole=patchbay:metrics-reader");
});
