// SPDX-License-Identifier: Apache-2.0
import type { ResourceType } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { Store } from "@patchbay/core/interfaces";
import type { Command, Context } from "../../command.ts";
import { argumentAt, listOption, type Input } from "../../input.ts";
import { printResult } from "../../print/output.ts";

const CORE = { group: "", version: "v1", namespaced: true } as const;
const NAMESPACES: ResourceType<KubeObject> = {
  ...CORE,
  resource: "namespaces",
  kind: "Namespace",
  namespaced: false,
};
const RESOURCE_QUOTAS: ResourceType<KubeObject> = {
  ...CORE,
  resource: "resourcequotas",
  kind: "ResourceQuota",
};
const LIMIT_RANGES: ResourceType<KubeObject> = {
  ...CORE,
  resource: "limitranges",
  kind: "LimitRange",
};

const DEFAULT_HARD: Readonly<Record<string, string>> = {
  pods: "60",
  "count/virtualmachines.kubevirt.io": "30",
  "count/virtualmachineinstances.kubevirt.io": "30",
  "requests.cpu": "16",
  "requests.memory": "32Gi",
  "requests.ephemeral-storage": "50Gi",
  "requests.devices.kubevirt.io/kvm": "60",
  "requests.devices.kubevirt.io/tun": "60",
  "requests.devices.kubevirt.io/vhost-net": "60",
  "requests.storage": "200Gi",
  persistentvolumeclaims: "60",
  services: "30",
  "services.nodeports": "30",
  configmaps: "200",
  secrets: "200",
  "count/network-attachment-definitions.k8s.cni.cncf.io": "50",
  "patchbay.io/stored-bytes": "16Mi",
};

/** Requests of containers that specify none, because a quota of CPU and memory rejects such containers. */
const DEFAULT_REQUESTS = { cpu: "10m", memory: "64Mi", "ephemeral-storage": "16Mi" };

export function findHardProblem(texts: readonly string[]): string | undefined {
  const invalid = texts.filter((text) => !/^[^=]+=[^=]*$/.test(text));
  if (invalid.length === 0) return undefined;
  return `${invalid.join(", ")} is not RESOURCE=QUANTITY, for example pods=20`;
}

function parseHard(texts: readonly string[]): Readonly<Record<string, string>> {
  const changes = texts.map((text) => {
    const [resource = "", quantity = ""] = text.split("=");
    return [resource, quantity] as const;
  });
  const hard = { ...DEFAULT_HARD, ...Object.fromEntries(changes) };
  return Object.fromEntries(Object.entries(hard).filter(([, quantity]) => quantity !== ""));
}

interface TenantObjects {
  readonly namespace: KubeObject;
  readonly contents: readonly (readonly [type: ResourceType<KubeObject>, object: KubeObject])[];
}

export function buildTenantObjects(name: string, hardFlags: readonly string[]): TenantObjects {
  const quota = (quotaName: string, spec: object): KubeObject & { readonly spec: object } => ({
    apiVersion: "v1",
    kind: "ResourceQuota",
    metadata: { name: quotaName, namespace: name },
    spec,
  });
  const scopes = [{ scopeName: "CrossNamespacePodAffinity", operator: "Exists" }];
  const limitRange: KubeObject & { readonly spec: object } = {
    apiVersion: "v1",
    kind: "LimitRange",
    metadata: { name: "tenant", namespace: name },
    spec: { limits: [{ type: "Container", defaultRequest: DEFAULT_REQUESTS }] },
  };
  return {
    namespace: { apiVersion: "v1", kind: "Namespace", metadata: { name } },
    contents: [
      [RESOURCE_QUOTAS, quota("tenant", { hard: parseHard(hardFlags) })],
      [
        RESOURCE_QUOTAS,
        quota("cross-namespace-affinity", {
          hard: { pods: "0" },
          scopeSelector: { matchExpressions: scopes },
        }),
      ],
      [LIMIT_RANGES, limitRange],
    ],
  };
}

export async function createTenant(
  store: Pick<Store, "create" | "delete">,
  { namespace, contents }: TenantObjects,
  signal: AbortSignal,
): Promise<void> {
  await store.create(NAMESPACES, namespace, { signal });
  try {
    for (const [type, object] of contents) await store.create(type, object, { signal });
  } catch (error) {
    await store.delete(NAMESPACES, { name: namespace.metadata.name });
    throw error;
  }
}

async function run(context: Context, input: Input): Promise<void> {
  const { withSession } = await import("../../session.ts");
  const name = argumentAt(input, 0);
  const hardFlags = listOption(input, "hard");
  const reason = findHardProblem(hardFlags);
  if (reason !== undefined) {
    const { AppError } = await import("@patchbay/base");
    throw new AppError("FLAG_INVALID", { flag: "--hard", reason });
  }
  const objects = buildTenantObjects(name, hardFlags);
  await withSession(context, async ({ client }) => {
    await createTenant(client.store, objects, context.signal);
    const created = [objects.namespace, ...objects.contents.map(([, object]) => object)];
    const names = created.map(({ kind, metadata }) => `${kind.toLowerCase()}/${metadata.name}`);
    await printResult(context, {
      table: () =>
        `${names.map((each) => `${each} created\n`).join("")}show its usage with: kubectl describe quota -n ${name}\n`,
      data: created,
      names,
    });
  });
}

export const createNamespace: Command = {
  name: "create namespace",
  aliases: ["ns"],
  args: ["<name>"],
  summary: "Create a tenant's namespace with a quota, without affinity to other namespaces",
  flags: [
    {
      flags: "--hard <limit>",
      description:
        "limit of the quota, RESOURCE=QUANTITY as in a ResourceQuota, instead of the default; an empty quantity removes it; may be repeated",
      isRepeatable: true,
    },
  ],
  run,
};
