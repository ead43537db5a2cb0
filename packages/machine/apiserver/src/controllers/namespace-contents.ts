// SPDX-License-Identifier: Apache-2.0
// Standard namespaces, and the objects that every namespace has.
import { DEFAULT_ACCOUNT } from "../admission/service-account.ts";
import { SERVICE_ACCOUNT } from "../kinds/access/service-account.ts";
import { NAMESPACE } from "../kinds/cluster/namespace.ts";
import { CONFIG_MAP } from "../kinds/config/config-map.ts";
import { apiVersionOf, bucketOf } from "../kinds/kind.ts";
import type { KubeObject } from "../objects/object.ts";
import { rfc3339 } from "../objects/time.ts";
import type { Transaction } from "../storage/store.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import { keepObject } from "./internal-writes.ts";
import { WorkQueue } from "./work-queue.ts";

const NAMES: readonly string[] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/** Makes the standard namespaces where they are missing. */
export async function makeStandardNamespaces(deps: VerbDeps): Promise<void> {
  await deps.store.write((transaction) => {
    for (const name of NAMES) {
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
const MAPS = bucketOf(CONFIG_MAP);

/** Source: Kubernetes root-ca-cert-publisher. */
const ROOT_CA = "kube-root-ca.crt";
const DESCRIPTION = "kubernetes.io/description";

/** What the contents are made of. */
type ContentsDeps = VerbDeps & {
  /** Authority of the server's certificate, PEM. */
  readonly rootCaPem: string;
};

function isActive(transaction: Transaction, name: string): boolean {
  const namespace = transaction.find({ bucket: NAMESPACES, namespace: "", name });
  return namespace !== undefined && namespace.view().metadata.deletionTimestamp === undefined;
}

function keep(transaction: Transaction, namespace: string, deps: ContentsDeps): void {
  if (!isActive(transaction, namespace)) {
    return;
  }
  const account = { kind: SERVICE_ACCOUNT, namespace, name: DEFAULT_ACCOUNT };
  keepObject(transaction, { kept: account, deps }, () => undefined);
  const map = { kind: CONFIG_MAP, namespace, name: ROOT_CA };
  keepObject(transaction, { kept: map, deps }, (object, isNew) => {
    if (isNew) {
      const text = "Authority of the API server's certificate, for clients inside of pods.";
      object.metadata.annotations = { [DESCRIPTION]: text };
    }
    object["data"] = { "ca.crt": deps.rootCaPem };
  });
}

/** Gives all namespaces what they are to have. */
export async function keepNamespaceContents(deps: ContentsDeps): Promise<void> {
  const namespaces = deps.store.list({ bucket: NAMESPACES });
  await deps.store.write((transaction) => {
    for (const { address } of namespaces) {
      keep(transaction, address.name, deps);
    }
  });
}

/** Starts the controller; it follows the store until `stop` is aborted. */
export function startNamespaceContents(deps: ContentsDeps, stop: AbortSignal): void {
  const { clock, logger, store } = deps;
  const work = (name: string) =>
    store.write((transaction) => {
      keep(transaction, name, deps);
    });
  const queue = new WorkQueue({ name: "namespace-contents", clock, logger, stop, work });
  const unsubscribe = store.subscribe((changes) => {
    for (const { current, type } of changes) {
      const { bucket, namespace, name } = current.address;
      if (bucket === NAMESPACES && type === "ADDED") {
        queue.add(name);
      } else if (
        (bucket === ACCOUNTS && name === DEFAULT_ACCOUNT && type === "DELETED") ||
        (bucket === MAPS && name === ROOT_CA && type !== "ADDED")
      ) {
        queue.add(namespace);
      }
    }
  });
  stop.addEventListener("abort", unsubscribe);
}
