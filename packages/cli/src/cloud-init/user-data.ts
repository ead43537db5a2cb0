// SPDX-License-Identifier: Apache-2.0
// Checks user data of cloud-init, finds its logins and adds SSH keys. Source: cloud-init, "Cloud config examples", cc_set_passwords.
import { AppError } from "@patchbay/base";
import {
  CLOUD_CONFIG_HEADER,
  KEYS_FIELD,
  printCloudConfig,
  PUBLIC_KEY,
} from "@patchbay/core/new-vm";
import { type Document, isMap, isSeq, parseDocument, YAMLMap, YAMLSeq } from "yaml";

export interface Login {
  /** User of the login; unset for the default user of the image. */
  readonly user?: string;
  readonly password: string;
}

function isCloudConfig(text: string): boolean {
  return text.split("\n")[0]?.trimEnd() === CLOUD_CONFIG_HEADER;
}

/** First lines of the formats that cloud-init reads, in lower case. Source: cloud-init, "User data formats". */
const HEADERS = [
  "#cloud-config",
  "#!",
  "## template:",
  "#cloud-boothook",
  "#part-handler",
  "#include",
  "#upstart-job",
  "content-type:",
  "mime-version:",
];

/** Returns why cloud-init would ignore the user data; undefined if cloud-init would read it. */
export function userDataProblem(text: string): string | undefined {
  const start = text.trimStart().toLowerCase();
  if (start === "" || HEADERS.some((header) => start.startsWith(header))) return undefined;
  const first = JSON.stringify(text.trimStart().split("\n")[0]?.slice(0, 40));
  return `cloud-init ignores user data that begin with ${first}; begin them with #cloud-config, #!, ## template: or a MIME header`;
}

/** Returns the public keys in a file with one key per line. @throws AppError with FLAG_INVALID */
export function readPublicKeys(text: string, file: string): readonly string[] {
  const lines = text.split("\n").map((line) => line.trim());
  const keys = lines.filter((line) => line !== "" && !line.startsWith("#"));
  if (keys.length > 0 && keys.every((key) => PUBLIC_KEY.test(key))) return keys;
  const reason = text.includes("PRIVATE KEY")
    ? `${file} is a private key, which must not leave its owner's machine; name the public key, which ends in .pub`
    : `${file} holds no public keys; each line must hold one`;
  throw new AppError("FLAG_INVALID", { flag: "--ssh-key", reason });
}

/** Adds SSH keys to user data. @throws AppError with FLAG_INVALID if the user data is not cloud-config */
export function addKeys(userData: string, keys: readonly string[]): string {
  if (keys.length === 0) return userData;
  const refuse = (reason: string): AppError =>
    new AppError("FLAG_INVALID", { flag: "--ssh-key", reason });
  if (!isCloudConfig(userData)) {
    throw refuse(
      `the user data does not begin with ${CLOUD_CONFIG_HEADER}, so keys cannot be added; put the keys into the user data`,
    );
  }
  const document: Document = parseDocument(userData.slice(userData.indexOf("\n") + 1));
  document.contents ??= new YAMLMap();
  const map = findMap(document);
  const listed = map?.get(KEYS_FIELD) ?? new YAMLSeq();
  if (map === undefined || !isSeq(listed)) {
    throw refuse(`cloud-init cannot read the user data: ${describeParseError(document)}`);
  }
  for (const key of keys) listed.add(document.createNode(key));
  map.set(KEYS_FIELD, listed);
  return printCloudConfig(document);
}

function findMap({ errors, contents }: Document): YAMLMap | undefined {
  return errors.length === 0 && isMap(contents) ? contents : undefined;
}

function describeParseError({ errors }: { readonly errors: readonly Error[] }): string {
  return (
    errors[0]?.message.split("\n")[0] ?? `they are not a mapping, or ${KEYS_FIELD} is not a list`
  );
}

function textAt(map: YAMLMap, key: string): string | undefined {
  const value: unknown = map.get(key);
  return typeof value === "string" && value !== "" ? value : undefined;
}

function readLogin(map: YAMLMap, user: string, password: string): Login | undefined {
  const name = textAt(map, user);
  const text = textAt(map, password);
  return text === undefined
    ? undefined
    : { ...(name !== undefined && { user: name }), password: text };
}

/** Returns the first login with a password: the fields `user` and `password`, or an entry of `users` with `plain_text_passwd`. */
export function findLogin(userData: string): Login | undefined {
  const map = isCloudConfig(userData) ? findMap(parseDocument(userData)) : undefined;
  if (map === undefined) return undefined;
  const listed = map.get("users");
  const users = isSeq(listed) ? listed.items.filter((each) => isMap(each)) : [];
  const logins = users.map((each) => readLogin(each, "name", "plain_text_passwd"));
  return readLogin(map, "user", "password") ?? logins.find((each) => each !== undefined);
}
