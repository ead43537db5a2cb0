// SPDX-License-Identifier: Apache-2.0
// Describes how to log in to a guest, or names the object that contains its credentials.
import { withCurrentFieldNames, SECRETS, type VirtualMachineInstance } from "@patchbay/api";
import type { Secret } from "@patchbay/api/kubernetes";
import { isAppError } from "@patchbay/base";
import type { Store } from "@patchbay/core/interfaces";
import { findLogin } from "../../cloud-init/user-data.ts";

type Volumes = NonNullable<VirtualMachineInstance["spec"]["volumes"]>;
type CloudInit = NonNullable<Volumes[number]["cloudInitNoCloud"]>;

const TIMEOUT_MS = 3_000;
/** Keys under which a secret may contain user data. Source: KubeVirt cloud-init. */
const USER_DATA_KEYS = ["userdata", "userData"];

function fromBase64(text: string): string {
  return Buffer.from(text, "base64").toString();
}

function findCloudInit({ spec }: VirtualMachineInstance): CloudInit | undefined {
  const { volumes = [] } = withCurrentFieldNames(spec);
  const found = volumes.map((each) => each.cloudInitNoCloud ?? each.cloudInitConfigDrive);
  return found.find((each) => each !== undefined);
}

function readUserData({ data = {} }: Secret): string {
  return fromBase64(
    USER_DATA_KEYS.map((key) => data[key]).find((text) => text !== undefined) ?? "",
  );
}

function describeLogin(userData: string, location: string): string {
  const login = findLogin(userData);
  if (login === undefined) return `see its user data for logins: ${location}`;
  // Encodes the texts as JSON, which escapes control characters. Otherwise, the guest's owner could control the user's terminal.
  const loginName = login.user === undefined ? "the image's own user" : JSON.stringify(login.user);
  return `log in as ${loginName} with password ${JSON.stringify(login.password)}`;
}

async function readSecret(
  store: Store,
  { metadata }: VirtualMachineInstance,
  name: string,
): Promise<string> {
  const { namespace = "default" } = metadata;
  const location = `secret ${name} in namespace ${namespace}`;
  try {
    const secret = await store.find(SECRETS, { namespace, name }, { timeoutMs: TIMEOUT_MS });
    return secret === undefined
      ? `the secret with its logins does not exist: ${name}`
      : describeLogin(readUserData(secret), location);
  } catch (error) {
    if (isAppError(error, "KUBE_FORBIDDEN")) return `see ${location} for its logins`;
    throw error;
  }
}

/** Returns one line with the user and the password, or with the place that defines the logins. */
export async function loginHint(store: Store, vmi: VirtualMachineInstance): Promise<string> {
  const cloudInit = findCloudInit(vmi);
  if (cloudInit === undefined) return "it has no cloud-init data; its image defines the logins";
  const { userData, userDataBase64, secretRef } = cloudInit;
  const secret = secretRef?.name ?? "";
  if (secret !== "") return readSecret(store, vmi, secret);
  const inlineUserData = userData ?? fromBase64(userDataBase64 ?? "");
  return describeLogin(inlineUserData, "its cloud-init volume");
}
