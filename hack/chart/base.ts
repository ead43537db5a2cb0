// SPDX-License-Identifier: Apache-2.0
// The manifests from which the chart is made.
import { join, relative } from "node:path";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { DEFINITIONS, parseManifests, readManifests, type Manifest } from "@patchbay/manifests";
import { createFiles } from "@patchbay/os";
import { parse } from "yaml";

const ROOT = join(import.meta.dirname, "../..");
const MANIFESTS = join(ROOT, "packages/common/manifests");

export interface Container {
  readonly name: string;
  readonly image: string;
  readonly args: readonly string[];
  readonly resources: unknown;
  readonly securityContext: Readonly<Record<string, unknown>> & {
    readonly capabilities: { readonly add?: readonly string[] };
  };
}

/** A Deployment or DaemonSet whose pod has one container. */
export interface Workload extends KubeObject {
  readonly spec: {
    readonly replicas?: number;
    readonly template: {
      readonly spec: Readonly<Record<string, unknown>> & {
        readonly containers: readonly [Container];
        readonly volumes?: readonly HostVolume[];
      };
    };
  };
}

/** A volume that may be a path of the node. */
export interface HostVolume {
  readonly name: string;
  readonly hostPath?: { readonly path: string };
}

export function isWorkload(object: KubeObject): object is Workload {
  return object.kind === "Deployment" || object.kind === "DaemonSet";
}

/** The objects of one manifest. */
export interface Source {
  /** Relative to the folder of manifests, for example `base/virt-api.yaml`. */
  readonly path: string;
  readonly objects: readonly KubeObject[];
}

export interface Base {
  /** Manifests of an installation, without CRDs. */
  readonly sources: readonly Source[];
  /** CRDs as text, by file name. */
  readonly definitions: ReadonlyMap<string, string>;
  /** Flag that the folder multi-network-policies adds to virt-handler. */
  readonly policyFlag: string;
  /** Rights that this folder adds. */
  readonly policyRights: readonly Source[];
  readonly vhostUserPolicy: Source;
  readonly serviceMonitor: Source;
  readonly rules: Source;
  readonly dashboard: Source;
  /** @throws Error for an unknown name */
  readonly service: (name: string) => {
    readonly workload: Workload;
    readonly container: Container;
  };
}

function toSource({ path, text }: Manifest): Source {
  return { path: relative(MANIFESTS, path), objects: parseManifests([{ path, text }]) };
}

function isDefinition({ kind }: KubeObject): boolean {
  return kind === DEFINITIONS.kind;
}

async function readText(path: string): Promise<string> {
  const text = await createFiles().readText(join(MANIFESTS, path));
  if (text === undefined) throw new Error(`${path} does not exist`);
  return text;
}

async function readSource(path: string): Promise<Source> {
  return toSource({ path: join(MANIFESTS, path), text: await readText(path) });
}

interface PatchOperation {
  readonly op: string;
  readonly path: string;
  readonly value: string;
}

/** Reads the flag that the overlay adds. @throws Error if the patch does anything else */
async function readPolicyFlag(): Promise<string> {
  // The cast is safe, because the code below compares each field.
  const operations = parse(
    await readText("multi-network-policies/virt-handler.yaml"),
  ) as readonly PatchOperation[];
  const [operation] = operations;
  const isFlag =
    operations.length === 1 &&
    operation?.op === "add" &&
    operation.path === "/spec/template/spec/containers/0/args/-";
  if (!isFlag) throw new Error("multi-network-policies/virt-handler.yaml does not add one flag");
  return operation.value;
}

/** The ConfigMap that kustomize makes of the dashboard. */
async function readDashboard(): Promise<Source> {
  // The cast is safe, because the file is part of the repository and kustomize reads it too.
  const { namespace, configMapGenerator, generatorOptions } = parse(
    await readText("monitoring/kustomization.yaml"),
  ) as {
    readonly namespace: string;
    readonly configMapGenerator: readonly [{ readonly name: string; readonly files: string[] }];
    readonly generatorOptions: { readonly labels: Readonly<Record<string, string>> };
  };
  const [{ name, files }] = configMapGenerator;
  const texts = files.map(async (file): Promise<[string, string]> => {
    return [file, await readText(`monitoring/${file}`)];
  });
  const object = {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, namespace, labels: generatorOptions.labels },
    data: Object.fromEntries(await Promise.all(texts)),
  };
  return { path: "monitoring/dashboard.yaml", objects: [object] };
}

export async function readBase(): Promise<Base> {
  const files = createFiles();
  const manifests = await readManifests(files, "base");
  const all = manifests.map(toSource);
  const definitions = manifests.filter(
    (_, index) => all[index]?.objects.some(isDefinition) === true,
  );
  const sources = all.filter(({ objects }) => !objects.some(isDefinition));
  const known = new Set(manifests.map(({ path }) => path));
  const overlay = await readManifests(files, "multi-network-policies");
  const workloads = sources.flatMap(({ objects }) => objects).filter(isWorkload);
  return {
    sources,
    definitions: new Map(
      definitions.map(({ path, text }) => [path.slice(path.lastIndexOf("/") + 1), text]),
    ),
    policyFlag: await readPolicyFlag(),
    policyRights: overlay.filter(({ path }) => !known.has(path)).map(toSource),
    vhostUserPolicy: await readSource("vhost-user/policy.yaml"),
    serviceMonitor: await readSource("monitoring/service-monitor.yaml"),
    rules: await readSource("monitoring/rules.yaml"),
    dashboard: await readDashboard(),
    service: (name) => {
      const workload = workloads.find(({ metadata }) => metadata.name === name);
      if (workload === undefined) throw new Error(`there is no ${name}`);
      return { workload, container: workload.spec.template.spec.containers[0] };
    },
  };
}
