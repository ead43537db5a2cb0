// SPDX-License-Identifier: Apache-2.0
// Withdraws rights of virt-controller for a while, which causes a 403 like a quota or PodSecurity.
import type { ResourceType } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { KubeClient } from "@patchbay/kube";

interface ClusterRole extends KubeObject {
  readonly rules: readonly {
    readonly resources: readonly string[];
    readonly verbs: readonly string[];
  }[];
}

const CLUSTER_ROLES: ResourceType<ClusterRole> = {
  group: "rbac.authorization.k8s.io",
  version: "v1",
  resource: "clusterroles",
  kind: "ClusterRole",
  namespaced: false,
};
const ROLE = { name: "patchbay:virt-controller" };

/** Withdraws one right. Returns a function that restores it. */
export async function withdraw(
  admin: KubeClient,
  verb: string,
  resource: string,
): Promise<() => Promise<void>> {
  const role = await admin.store.find(CLUSTER_ROLES, ROLE);
  const rules = role?.rules ?? [];
  const write = async (value: unknown): Promise<void> => {
    const operations = [{ op: "replace", path: "/rules", value }] as const;
    await admin.store.patch(CLUSTER_ROLES, ROLE, { type: "json", operations });
  };
  await write(
    rules.map((rule) =>
      rule.resources.includes(resource)
        ? { ...rule, verbs: rule.verbs.filter((granted) => granted !== verb) }
        : rule,
    ),
  );
  return () => write(rules);
}
