// SPDX-License-Identifier: Apache-2.0
// The volume with a token that a pod gets unless somebody does not want it. Source: Kubernetes ServiceAccount admission.
import { CONTAINER_LISTS, itemsOf } from "../kinds/workload/pod-defaults.ts";
import { type Fields, listOf, textAt, valueAt } from "../objects/json.ts";

const MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount";
const PREFIX = "kube-api-access-";
/** 0644. Source: as above. */
const MODE = 420;
/** An hour, and a little so that it can be told apart. Source: as above. */
const TOKEN_SECONDS = 3607;

function tokenVolume(name: string): Fields {
  const namespace = { apiVersion: "v1", fieldPath: "metadata.namespace" };
  return {
    name,
    projected: {
      defaultMode: MODE,
      sources: [
        { serviceAccountToken: { expirationSeconds: TOKEN_SECONDS, path: "token" } },
        { configMap: { name: "kube-root-ca.crt", items: [{ key: "ca.crt", path: "ca.crt" }] } },
        { downwardAPI: { items: [{ path: "namespace", fieldRef: namespace }] } },
      ],
    },
  };
}

/** The pod decides, then its account; nobody: yes. */
function isWanted(spec: Fields, account: unknown): boolean {
  const own = spec["automountServiceAccountToken"];
  return (own ?? valueAt(account, "automountServiceAccountToken") ?? true) === true;
}

function hasMount(container: Fields): boolean {
  return listOf(container["volumeMounts"]).some((one) => textAt(one, "mountPath") === MOUNT_PATH);
}

/** Adds the volume to a pod, and mounts it in each container that has nothing there. Changes `spec`. */
export function giveToken(spec: Fields, account: unknown, suffix: () => string): void {
  if (!isWanted(spec, account)) {
    return;
  }
  const containers = CONTAINER_LISTS.flatMap((list) => itemsOf(spec, list));
  const without = containers.filter((container) => !hasMount(container));
  if (without.length === 0) {
    return;
  }
  const volumes = listOf(spec["volumes"]);
  const known = volumes.map((one) => textAt(one, "name")).find((name) => name.startsWith(PREFIX));
  const name = known ?? `${PREFIX}${suffix()}`;
  if (known === undefined) {
    spec["volumes"] = [...volumes, tokenVolume(name)];
  }
  for (const container of without) {
    const mount = { name, readOnly: true, mountPath: MOUNT_PATH };
    container["volumeMounts"] = [...listOf(container["volumeMounts"]), mount];
  }
}
