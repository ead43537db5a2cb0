// SPDX-License-Identifier: Apache-2.0
import type { ResourceType } from "@patchbay/api";
import type { KubeNode, KubeObject } from "@patchbay/api/kubernetes";
import type { Store } from "@patchbay/core/interfaces";
import type { Command, Context } from "../../command.ts";
import { argumentAt, hasFlag, listOption, type Input } from "../../input.ts";
import { printResult } from "../../print/output.ts";

const CORE = { group: "", version: "v1", namespaced: true } as const;
const NAMESPACES: ResourceType<KubeObject> = {
  ...CORE,
  resource: "namespaces",
  kind: "Namespace",
  namespaced: false,
};
const NODES: ResourceType<KubeNode> = {
  ...CORE,
  resource: "nodes",
  kind: "Node",
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
  "requests.vhost-user.patchbay.io/dataplane": "60",
  "requests.vhost-user.patchbay.io/sockets": "60",
  "requests.storage": "200Gi",
  persistentvolumeclaims: "60",
  services: "30",
  "services.nodeports": "30",
  configmaps: "200",
  secrets: "200",
  "count/network-attachment-definitions.k8s.cni.cncf.io": "50",
  "patchbay.io/stored-bytes": "16Mi",
};

const MEBIBYTE = 2 ** 20;

interface NodeShare {
  readonly nodeResource: string;
  readonly share: number;
  readonly print: (amount: number) => string;
}

function printMebibytes(bytes: number): string {
  return `${String(Math.floor(bytes / MEBIBYTE))}Mi`;
}

/** Largest shares of the nodes' resources that one tenant gets by default. Claims of a standalone machine are on the disk of its pods. */
const NODE_SHARES: Readonly<Record<string, NodeShare>> = {
  pods: { nodeResource: "pods", share: 1 / 2, print: (count) => String(Math.floor(count)) },
  "requests.cpu": {
    nodeResource: "cpu",
    share: 1 / 2,
    print: (cpus) => `${String(Math.floor(cpus * 1000))}m`,
  },
  "requests.memory": { nodeResource: "memory", share: 1 / 2, print: printMebibytes },
  "requests.ephemeral-storage": {
    nodeResource: "ephemeral-storage",
    share: 1 / 4,
    print: printMebibytes,
  },
  "requests.storage": { nodeResource: "ephemeral-storage", share: 1 / 4, print: printMebibytes },
};

async function buildDefaultHard(
  nodes: readonly KubeNode[],
): Promise<Readonly<Record<string, string>>> {
  const { parseQuantity } = await import("@patchbay/api/values");
  const limits = Object.entries(DEFAULT_HARD).map(([resource, limit]) => {
    const nodeShare = NODE_SHARES[resource];
    if (nodeShare === undefined) return [resource, limit];
    const amounts = nodes.map(({ status }) =>
      parseQuantity(status?.allocatable?.[nodeShare.nodeResource]),
    );
    const share = amounts.reduce<number>((sum, amount = 0) => sum + amount, 0) * nodeShare.share;
    const isLower = share > 0 && share < (parseQuantity(limit) ?? 0);
    return [resource, isLower ? nodeShare.print(share) : limit];
  });
  return Object.fromEntries(limits) as Readonly<Record<string, string>>;
}

/** Requests of containers that specify none, because a quota of CPU and memory rejects such containers. */
const DEFAULT_REQUESTS = { cpu: "10m", memory: "64Mi", "ephemeral-storage": "16Mi" };
/** Each container counts for at least this amount of the quota. No container of Patchbay's own pods requests less. */
const MIN_REQUESTS = { memory: "8Mi" };

export function findHardProblem(texts: readonly string[]): string | undefined {
  const invalid = texts.filter((text) => !/^[^=]+=[^=]*$/.test(text));
  if (invalid.length === 0) return undefined;
  return `${invalid.join(", ")} is not RESOURCE=QUANTITY, for example pods=20`;
}

async function parseHard(
  texts: readonly string[],
  nodes: readonly KubeNode[],
): Promise<Readonly<Record<string, string>>> {
  const changes = texts.map((text) => {
    const [resource = "", quantity = ""] = text.split("=");
    return [resource, quantity] as const;
  });
  const hard = { ...(await buildDefaultHard(nodes)), ...Object.fromEntries(changes) };
  return Object.fromEntries(Object.entries(hard).filter(([, quantity]) => quantity !== ""));
}

interface TenantObjects {
  readonly namespace: KubeObject;
  readonly contents: readonly (readonly [type: ResourceType<KubeObject>, object: KubeObject])[];
}

export async function buildTenantObjects(
  name: string,
  hardFlags: readonly string[],
  nodes: readonly KubeNode[] = [],
): Promise<TenantObjects> {
  const quota = (quotaName: string, spec: object): KubeObject & { readonly spec: object } => ({
    apiVersion: "v1",
    kind: "ResourceQuota",
    metadata: { name: quotaName, namespace: name },
    spec,
  });
  const { names } = await import("@patchbay/api");
  const scopes = [{ scopeName: "CrossNamespacePodAffinity", operator: "Exists" }];
  const limitRange: KubeObject & { readonly spec: object } = {
    apiVersion: "v1",
    kind: "LimitRange",
    metadata: { name: "tenant", namespace: name },
    spec: { limits: [{ type: "Container", defaultRequest: DEFAULT_REQUESTS, min: MIN_REQUESTS }] },
  };
  return {
    namespace: {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name, labels: { [names.TENANT_LABEL]: "" } },
    },
    contents: [
      [RESOURCE_QUOTAS, quota("tenant", { hard: await parseHard(hardFlags, nodes) })],
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

async function createContents(
  store: Pick<Store, "create">,
  { contents }: TenantObjects,
  signal: AbortSignal,
): Promise<void> {
  for (const [type, object] of contents) await store.create(type, object, { signal });
}

export async function createTenant(
  store: Pick<Store, "create" | "delete">,
  objects: TenantObjects,
  signal: AbortSignal,
): Promise<void> {
  const { namespace } = objects;
  await store.create(NAMESPACES, namespace, { signal });
  try {
    await createContents(store, objects, signal);
  } catch (error) {
    await store.delete(NAMESPACES, { name: namespace.metadata.name });
    throw error;
  }
}

export async function addTenant(
  store: Pick<Store, "create" | "patch">,
  objects: TenantObjects,
  signal: AbortSignal,
): Promise<void> {
  const { name, labels } = objects.namespace.metadata;
  const patch = { type: "merge", fields: { metadata: { labels } } } as const;
  await store.patch(NAMESPACES, { name }, patch, { signal });
  await createContents(store, objects, signal);
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
  const isExisting = hasFlag(input, "existing");
  const { signal } = context;
  await withSession(context, async ({ client: { store } }) => {
    const { items: nodes } = await store.list(NODES, { signal });
    const objects = await buildTenantObjects(name, hardFlags, nodes);
    await (isExisting ? addTenant : createTenant)(store, objects, signal);
    const contents = objects.contents.map(([, object]) => object);
    const created = isExisting ? contents : [objects.namespace, ...contents];
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
    {
      flags: "--existing",
      description: "add the quota to a namespace that exists; what it already uses counts",
    },
  ],
  run,
};
