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

const REGISTRY = { registry: { url: "docker://a" } };
const CHAIN = { ...sourceRef("chain"), storage: {} };
const RESOLVED = { storage: {}, source: { pvc: { namespace: "images", name: "golden" } } };
const OWN = { source: { pvc: { namespace: "tenant", name: "golden" } } };
const FORBIDDEN = "CONTROLLER_CLONE_FORBIDDEN";
const NO_SOURCE = "CONTROLLER_NO_DATA_SOURCE";
const [UNTOUCHED, NONE] = ["unchanged", ""];

test.each<readonly [name: string, spec: Spec, granted: string, want: unknown]>([
  ["a registry", { source: REGISTRY }, NONE, UNTOUCHED],
  ["a claim of the VM's namespace", { source: pvc() }, NONE, UNTOUCHED],
  ["the same with its name", { source: pvc("tenant") }, NONE, UNTOUCHED],
  ["a claim of another namespace", { source: pvc("images") }, NONE, FORBIDDEN],
  ["a claim that the account may clone", { source: pvc("images") }, MAY_CLONE, UNTOUCHED],
  ["a claim for the account's pods", { source: pvc("images") }, MAY_CREATE_PODS, UNTOUCHED],
  ["another namespace's snapshot", { source: snapshot("images") }, MAY_CREATE_PODS, FORBIDDEN],
  ["a snapshot that may be cloned", { source: snapshot("images") }, MAY_CLONE, UNTOUCHED],
  ["an own DataSource of a foreign claim", sourceRef("theirs"), NONE, FORBIDDEN],
  ["a foreign DataSource", sourceRef("debian", "images"), NONE, FORBIDDEN],
  ["a chain of DataSources", sourceRef("chain"), NONE, FORBIDDEN],
  ["a chain that may be cloned", CHAIN, MAY_CLONE, RESOLVED],
  ["an own DataSource of an own claim", sourceRef("own"), NONE, OWN],
  ["an endless chain", sourceRef("loop"), NONE, NO_SOURCE],
  ["a missing DataSource", sourceRef("none"), NONE, NO_SOURCE],
])("authorizes %s", async (_name, spec, granted, want) => {
  const got = await authorize(spec, makeBench([granted]));
  expect(typeof got === "string" ? got : got.spec).toEqual(want === UNTOUCHED ? spec : want);
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
