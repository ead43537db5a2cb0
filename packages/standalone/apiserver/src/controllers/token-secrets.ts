// SPDX-License-Identifier: Apache-2.0
import type { AccountTokens } from "../auth/tokens/account-tokens.ts";
import { SERVICE_ACCOUNT } from "../kinds/access/service-account.ts";
import {
  ACCOUNT_NAME_ANNOTATION,
  ACCOUNT_UID_ANNOTATION,
  SECRET,
  TOKEN_SECRET_TYPE,
} from "../kinds/config/secret.ts";
import { bucketOf } from "../kinds/kind.ts";
import { equalJson, asFields, textAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { StoredObject } from "../storage/store.ts";
import type { VerbDeps } from "../verbs/deps.ts";
import { deleteInternally } from "./internal-writes.ts";
import { WorkQueue } from "./work-queue.ts";

const SECRETS = bucketOf(SECRET);
const ACCOUNTS = bucketOf(SERVICE_ACCOUNT);

export type TokenSecretsDeps = VerbDeps & {
  readonly accountTokens: AccountTokens;
  readonly rootCaPem: string;
};

function findAccountName(secret: KubeObject): string {
  return secret["type"] === TOKEN_SECRET_TYPE
    ? textAt(secret, "metadata", "annotations", ACCOUNT_NAME_ANNOTATION)
    : "";
}

function base64(text: string): string {
  return Buffer.from(text).toString("base64");
}

/** Returns the Secret with all fields of a token Secret. Retains an existing token, but replaces other values. */
async function withToken(
  secret: KubeObject,
  account: KubeObject,
  deps: TokenSecretsDeps,
): Promise<KubeObject> {
  const { namespace = "", name, annotations } = secret.metadata;
  const data = asFields(secret["data"]);
  const token =
    textAt(data, "token") || base64(await deps.accountTokens.issueForSecret(account, name));
  return {
    ...secret,
    metadata: {
      ...secret.metadata,
      annotations: { ...annotations, [ACCOUNT_UID_ANNOTATION]: account.metadata.uid ?? "" },
    },
    data: { ...data, "ca.crt": base64(deps.rootCaPem), namespace: base64(namespace), token },
  };
}

async function completeSecret(stored: StoredObject, deps: TokenSecretsDeps): Promise<void> {
  const secret = stored.view();
  const { namespace } = stored.address;
  const account = deps.store
    .find({ bucket: ACCOUNTS, namespace, name: findAccountName(secret) })
    ?.view();
  const accountUid = textAt(secret, "metadata", "annotations", ACCOUNT_UID_ANNOTATION);
  if (account === undefined || (accountUid !== "" && accountUid !== account.metadata.uid)) {
    const options = { uid: secret.metadata.uid ?? "", propagationPolicy: "Background" };
    await deleteInternally(deps, { kind: SECRET, address: stored.address }, options);
    return;
  }
  const completedSecret = await withToken(secret, account, deps);
  await deps.store.write((transaction) => {
    const isSame = transaction.find(stored.address)?.revision === stored.revision;
    if (isSame && !equalJson(completedSecret, secret)) {
      transaction.put(stored.address, completedSecret);
    }
  });
}

export function startTokenSecrets(deps: TokenSecretsDeps, stop: AbortSignal): void {
  const { clock, logger, store } = deps;
  const find = (key: string) => {
    const [namespace = "", name = ""] = key.split("/");
    return store.find({ bucket: SECRETS, namespace, name });
  };
  const work = async (key: string) => {
    const stored = find(key);
    if (stored !== undefined) {
      await completeSecret(stored, deps);
    }
  };
  const queue = new WorkQueue({ name: "token-secrets", clock, logger, stop, work });
  const addTokenSecret = (stored: StoredObject, account?: string) => {
    const accountName = findAccountName(stored.view());
    if (accountName !== "" && (account === undefined || accountName === account)) {
      queue.add(`${stored.address.namespace}/${stored.address.name}`);
    }
  };
  const unsubscribe = store.subscribe((changes) => {
    for (const { current, type } of changes) {
      const { bucket, namespace, name } = current.address;
      if (bucket === SECRETS && type !== "DELETED") {
        addTokenSecret(current);
      } else if (bucket === ACCOUNTS && type === "DELETED") {
        store.list({ bucket: SECRETS, namespace }).forEach((secret) => {
          addTokenSecret(secret, name);
        });
      }
    }
  });
  stop.addEventListener("abort", unsubscribe);
  store.list({ bucket: SECRETS }).forEach((secret) => {
    addTokenSecret(secret);
  });
}
