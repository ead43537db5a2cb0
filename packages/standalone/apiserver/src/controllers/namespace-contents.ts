// SPDX-License-Identifier: Apache-2.0
import { DEFAULT_ACCOUNT } from "../admission/service-account.ts";
import { SERVICE_ACCOUNT } from "../kinds/access/service-account.ts";
import { NAMESPACE } from "../kinds/cluster/namespace.ts";
import { CONFIG_MAP } from "../kinds/config/config-map.ts";
import { apiVersionOf, bucketOf } from "../kinds/kind.ts";
import type { KubeObject } from "../objects/object.ts";
import { rfc3339 } from "../objects/time.ts";
import type { Transaction } from "../storage/store.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import { ensureObject } from "./internal-writes.ts";
import { WorkQueue } from "./work-queue.ts";

const STANDARD_NAMESPACES: readonly string[] = [
  "default",
  "kube-node-lease",
  "kube-public",
  "kube-system",
];

export async function createStandardNamespaces(deps: VerbDeps): Promise<void> {
  await deps.store.write((transaction) => {
    for (const name of STANDARD_NAMESPACES) {
      const address = { bucket: bucketOf(NAMESPACE), namespace: "", name };
      if (transaction.find(address) === undefined) {
        const namespace: KubeObject = {
          apiVersion: apiVersionOf(NAMESPACE),
          kind: NAMESPACE.kind,
          metadata: {
            name,
            uid: deps.random.uid(),
            creationTimestamp: rfc3339(deps.clock.now()),
          },
        };
        NAMESPACE.strategy.prepareCreate?.(namespace);
        transaction.put(address, namespace);
      }
    }
  });
}

const NAMESPACES = bucketOf(NAMESPACE);
const ACCOUNTS = bucketOf(SERVICE_ACCOUNT);
const CONFIG_MAPS = bucketOf(CONFIG_MAP);

/** Name of the ConfigMap with the API server's CA. Source: Kubernetes root-ca-cert-publisher. */
const ROOT_CA_CONFIG_MAP = "kube-root-ca.crt";
const DESCRIPTION_ANNOTATION = "kubernetes.io/description";

type ContentsDeps = VerbDeps & {
  readonly rootCaPem: string;
};

function isActive(transaction: Transaction, name: string): boolean {
  const namespace = transaction.find({ bucket: NAMESPACES, namespace: "", name });
  return namespace !== undefined && namespace.view().metadata.deletionTimestamp === undefined;
}

function ensureContents(transaction: Transaction, namespace: string, deps: ContentsDeps): void {
  if (!isActive(transaction, namespace)) {
    return;
  }
  const account = { kind: SERVICE_ACCOUNT, namespace, name: DEFAULT_ACCOUNT };
  ensureObject(transaction, account, deps, () => undefined);
  const configMap = { kind: CONFIG_MAP, namespace, name: ROOT_CA_CONFIG_MAP };
  ensureObject(transaction, configMap, deps, (object, isNew) => {
    if (isNew) {
      const text = "CA of the API server's certificate, for clients in pods.";
      object.metadata.annotations = { [DESCRIPTION_ANNOTATION]: text };
    }
    object["data"] = { "ca.crt": deps.rootCaPem };
  });
}

export async function ensureNamespaceContents(deps: ContentsDeps): Promise<void> {
  const namespaces = deps.store.list({ bucket: NAMESPACES });
  await deps.store.write((transaction) => {
    for (const { address } of namespaces) {
      ensureContents(transaction, address.name, deps);
    }
  });
}

export function startNamespaceContents(deps: ContentsDeps, stop: AbortSignal): void {
  const { clock, logger, store } = deps;
  const work = (name: string) =>
    store.write((transaction) => {
      ensureContents(transaction, name, deps);
    });
  const queue = new WorkQueue({ name: "namespace-contents", clock, logger, stop, work });
  const unsubscribe = store.subscribe((changes) => {
    for (const { current, type } of changes) {
      const { bucket, namespace, name } = current.address;
      if (bucket === NAMESPACES && type === "ADDED") {
        queue.add(name);
      } else if (
        (bucket === ACCOUNTS && name === DEFAULT_ACCOUNT && type === "DELETED") ||
        (bucket === CONFIG_MAPS && name === ROOT_CA_CONFIG_MAP && type !== "ADDED")
      ) {
        queue.add(namespace);
      }
    }
  });
  stop.addEventListener("abort", unsubscribe);
}
