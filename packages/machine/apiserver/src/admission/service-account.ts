// SPDX-License-Identifier: Apache-2.0
// Service account and token volume of new pods. Source: Kubernetes ServiceAccount admission.
import type { Clock } from "@patchbay/core/ports";
import { forbiddenBecause } from "../auth/forbidden.ts";
import { CONTAINER_LISTS, itemsOf } from "../kinds/workload/pod-defaults.ts";
import { type Fields, copyJson, fieldsOf, listOf, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Store } from "../storage/store.ts";
import type { Mutation } from "./admission.ts";

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

/** The account of pods that name none; every namespace gets it a moment after it is made. */
export const DEFAULT_ACCOUNT = "default";

/** How long a pod waits for the default account of a new namespace. */
const DEFAULT_ACCOUNT_WAIT_MS = 1000;

const BUCKET = "/serviceaccounts";

/** Where accounts are looked up. */
interface AccountLookup {
  readonly store: Pick<Store, "find" | "subscribe">;
  readonly clock: Clock;
  readonly random: { readonly suffix: () => string };
}

/** Resolves with the account when it is there, or with undefined when the time is up. */
async function awaitAccount(
  lookup: AccountLookup,
  address: { readonly namespace: string; readonly name: string },
): Promise<KubeObject | undefined> {
  const find = () => lookup.store.find({ bucket: BUCKET, ...address })?.view();
  const found = find();
  if (found !== undefined || address.name !== DEFAULT_ACCOUNT) {
    return found;
  }
  const done = new AbortController();
  const unsubscribe = lookup.store.subscribe(() => {
    if (find() !== undefined) {
      done.abort();
    }
  });
  try {
    await lookup.clock.sleep(DEFAULT_ACCOUNT_WAIT_MS, done.signal);
  } catch {
    // It is there.
  } finally {
    unsubscribe();
  }
  return find();
}

function giveSecrets(spec: Fields, account: KubeObject): void {
  const secrets = listOf(account["imagePullSecrets"]);
  if (listOf(spec["imagePullSecrets"]).length === 0 && secrets.length > 0) {
    spec["imagePullSecrets"] = copyJson(secrets);
  }
}

/** Sets the account of a new pod. Throws a StatusError 403 where there is no such account. */
export async function giveAccount(question: Mutation, lookup: AccountLookup): Promise<void> {
  const { kind, subresource, operation, object, namespace } = question;
  if (
    kind.group !== "" ||
    kind.resource !== "pods" ||
    subresource !== "" ||
    operation !== "CREATE"
  ) {
    return;
  }
  const spec = fieldsOf(object["spec"]);
  const name =
    textAt(spec, "serviceAccountName") || textAt(spec, "serviceAccount") || DEFAULT_ACCOUNT;
  const account = await awaitAccount(lookup, { namespace, name });
  if (account === undefined) {
    const about = { group: "", resource: "pods", name: object.metadata.name };
    throw forbiddenBecause(
      about,
      `error looking up service account ${namespace}/${name}: serviceaccount "${name}" not found`,
    );
  }
  spec["serviceAccountName"] = name;
  spec["serviceAccount"] = name;
  giveSecrets(spec, account);
  giveToken(spec, account, lookup.random.suffix);
}
