// SPDX-License-Identifier: Apache-2.0
// What VM do the flags of `create vm` mean, with the files that they name?
import { randomBytes } from "node:crypto";
import { resolve } from "node:path";
import { AppError } from "@patchbay/core/errors";
import type { Files } from "@patchbay/core/ports";
import { addKeys, makePassword, makeUserData, readPublicKeys } from "../../cloud-init/user-data.ts";
import {
  argumentAt,
  hasFlag,
  listOption,
  numberOption,
  textOption,
  type Input,
} from "../../input.ts";
import type { VmOrder } from "./vm-objects.ts";

/** Bytes of a generated password. */
const PASSWORD_BYTES = 16;

async function readFile(files: Files, flag: string, path: string): Promise<string> {
  const text = await files.readText(resolve(path));
  if (text !== undefined) return text;
  throw new AppError("FLAG_INVALID", { flag, reason: `the file ${path} does not exist` });
}

async function readKeys(files: Files, paths: readonly string[]): Promise<readonly string[]> {
  const read = async (path: string): Promise<readonly string[]> =>
    readPublicKeys(await readFile(files, "--ssh-key", path), path);
  return (await Promise.all(paths.map(read))).flat();
}

async function readUserData(files: Files, input: Input): Promise<string> {
  const keys = await readKeys(files, listOption(input, "sshKey"));
  const path = textOption(input, "userData");
  if (path !== undefined) return addKeys(await readFile(files, "--user-data", path), keys);
  const password = makePassword(randomBytes(PASSWORD_BYTES));
  return makeUserData({ user: textOption(input, "user") ?? "", password }, keys);
}

/**
 * Reads it. Without user data there is a user with a password that nobody knows yet.
 * @throws AppError with FLAG_INVALID
 */
export async function readOrder(
  files: Files,
  input: Input,
  namespace: string | undefined,
): Promise<VmOrder> {
  const networkData = textOption(input, "networkData");
  return {
    name: argumentAt(input, 0),
    namespace,
    image: textOption(input, "image") ?? "",
    memory: textOption(input, "memory") ?? "",
    cpus: numberOption(input, "cpus", 1),
    userData: await readUserData(files, input),
    ...(networkData !== undefined && {
      networkData: await readFile(files, "--network-data", networkData),
    }),
    disks: listOption(input, "disk"),
    networks: listOption(input, "network"),
    isStopped: hasFlag(input, "stopped"),
  };
}
