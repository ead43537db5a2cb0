// SPDX-License-Identifier: Apache-2.0
import { DATA_SOURCES, DATA_VOLUMES, apiVersionOf, type DataVolume } from "@patchbay/api";
import { isAppError } from "@patchbay/base";
import type { Store } from "@patchbay/core/interfaces";
import { createFakeStore } from "@patchbay/kube/testing";
import { aVm } from "@patchbay/support";
import { expect, test } from "vitest";
import { authorizeSource } from "./clone-source.ts";

type Spec = DataVolume["spec"];

function dataVolumeOf(spec: Spec): DataVolume {
  return {
    apiVersion: apiVersionOf(DATA_VOLUMES),
    kind: DATA_VOLUMES.kind,
    metadata: { name: "root", namespace: "tenant" },
    spec,
  };
}

const pvc = (namespace?: string) => ({
  pvc: { name: "golden", ...(namespace === undefined ? {} : { namespace }) },
});
const snapshot = (namespace: string) => ({ snapshot: { name: "golden", namespace } });
const sourceRef = (name: string, namespace?: string) => ({
  sourceRef: { kind: "DataSource", name, ...(namespace === undefined ? {} : { namespace }) },
});

interface Bench {
  readonly store: Pick<Store, "find" | "create">;
  /** Checked rights as `ACCOUNT RESOURCE NAMESPACE/NAME`. */
  readonly checked: string[];
}

/** A server with DataSources, and with the rights in `granted` as in `checked`. */
function makeBench(granted: readonly string[]): Bench {
  const fake = createFakeStore();
  const dataSources: Readonly<Record<string, unknown>> = {
    "tenant/theirs": pvc("images"),
    "tenant/own": pvc(),
    "tenant/chain": { dataSource: { name: "debian", namespace: "images" } },
    "tenant/loop": { dataSource: { name: "loop" } },
    "images/debian": pvc(),
  };
  for (const [key, source] of Object.entries(dataSources)) {
    const [namespace = "", name = ""] = key.split("/");
    const spec = { source };
    const object = { apiVersion: apiVersionOf(DATA_SOURCES), kind: DATA_SOURCES.kind, spec };
    fake.put(DATA_SOURCES, { ...object, metadata: { namespace, name } });
  }
  const checked: string[] = [];
  const create = ((_: unknown, review: { readonly spec: Review }) => {
    const { user, resourceAttributes } = review.spec;
    const { resource, subresource, namespace, name } = resourceAttributes;
    const right = `${user} ${[resource, subresource].filter(Boolean).join("/")} ${namespace}/${name}`;
    checked.push(right);
    return Promise.resolve({ ...review, status: { allowed: granted.includes(right) } });
  }) as unknown as Store["create"]; // Only reviews are created.
  return { store: { find: fake.find.bind(fake), create }, checked };
}

interface Review {
  readonly user: string;
  readonly resourceAttributes: Readonly<
    Record<"resource" | "subresource" | "namespace" | "name", string>
  >;
}

const ACCOUNT = "system:serviceaccount:tenant:default";
const MAY_CLONE = `${ACCOUNT} datavolumes/source images/golden`;
const MAY_CREATE_PODS = `${ACCOUNT} pods images/golden`;

function authorize(spec: Spec, { store }: Bench, volumes: readonly unknown[] = []) {
  const template = aVm().spec.template.spec;
  // The cast is for a volume that Patchbay does not mount.
  const vmiSpec = { ...template, volumes } as typeof template;
  return authorizeSource(dataVolumeOf(spec), vmiSpec, store).catch((error: unknown) => {
    if (!isAppError(error)) throw error;
    return error.code;
  });
}

test.each<{ name: string; spec: Spec; granted?: readonly string[]; want: unknown }>([
  { name: "a registry", spec: { source: { registry: { url: "docker://a" } } }, want: "unchanged" },
  { name: "a claim of the VM's namespace", spec: { source: pvc() }, want: "unchanged" },
  { name: "the same with its name", spec: { source: pvc("tenant") }, want: "unchanged" },
  {
    name: "a claim of another namespace",
    spec: { source: pvc("images") },
    want: "CONTROLLER_CLONE_FORBIDDEN",
  },
  {
    name: "a claim that the account may clone",
    spec: { source: pvc("images") },
    granted: [MAY_CLONE],
    want: "unchanged",
  },
  {
    name: "a claim that pods of the account may mount",
    spec: { source: pvc("images") },
    granted: [MAY_CREATE_PODS],
    want: "unchanged",
  },
  {
    name: "a snapshot of another namespace",
    spec: { source: snapshot("images") },
    granted: [MAY_CREATE_PODS],
    want: "CONTROLLER_CLONE_FORBIDDEN",
  },
  {
    name: "a snapshot that the account may clone",
    spec: { source: snapshot("images") },
    granted: [MAY_CLONE],
    want: "unchanged",
  },
  {
    name: "an own DataSource that names a foreign claim",
    spec: sourceRef("theirs"),
    want: "CONTROLLER_CLONE_FORBIDDEN",
  },
  {
    name: "a foreign DataSource",
    spec: sourceRef("debian", "images"),
    want: "CONTROLLER_CLONE_FORBIDDEN",
  },
  { name: "a chain of DataSources", spec: sourceRef("chain"), want: "CONTROLLER_CLONE_FORBIDDEN" },
  {
    name: "a chain that the account may clone",
    spec: { ...sourceRef("chain"), storage: {} },
    granted: [MAY_CLONE],
    want: { storage: {}, source: { pvc: { namespace: "images", name: "golden" } } },
  },
  {
    name: "an own DataSource of an own claim",
    spec: sourceRef("own"),
    want: { source: { pvc: { namespace: "tenant", name: "golden" } } },
  },
  { name: "an endless chain", spec: sourceRef("loop"), want: "CONTROLLER_NO_DATA_SOURCE" },
  { name: "a missing DataSource", spec: sourceRef("none"), want: "CONTROLLER_NO_DATA_SOURCE" },
])("authorizes $name", async ({ spec, granted = [], want }) => {
  const got = await authorize(spec, makeBench(granted));
  expect(typeof got === "string" ? got : got.spec).toEqual(want === "unchanged" ? spec : want);
});

test("checks the service account that the VM names", async () => {
  const bench = makeBench([]);
  const volumes = [{ name: "account", serviceAccount: { serviceAccountName: "cloner" } }];
  expect(await authorize({ source: pvc("images") }, bench, volumes)).toBe(
    "CONTROLLER_CLONE_FORBIDDEN",
  );
  expect(bench.checked).toEqual([
    "system:serviceaccount:tenant:cloner datavolumes/source images/golden",
    "system:serviceaccount:tenant:cloner pods images/golden",
  ]);
});
