// SPDX-License-Identifier: Apache-2.0
// With which words are OpenSSH's programs started, so that they reach a guest through the API server? Source: OpenSSH
// ssh_config(5), ProxyCommand; KubeVirt virtctl ssh.
import { AppError } from "@patchbay/core/errors";
import { parseGuestName, type GuestName, checkUser } from "../guest-name.ts";
import type { GlobalOptions, Context } from "../../../command.ts";
import { listOption, numberOption, textOption, type Input } from "../../../input.ts";
import { loadKubeConfig } from "@patchbay/kube";
import { createFiles, runInForeground } from "@patchbay/os";
import { ProgramEnded } from "../../../program-ended.ts";
import { chooseKubeConfig } from "../../../session.ts";

/** From one to the other. */
interface Copy {
  readonly guest: GuestName;
  /** In the guest; empty: its user's home. */
  readonly path: string;
  /** As scp takes it for a file here, whatever is in its name. */
  readonly local: string;
  readonly isToGuest: boolean;
}

/** A guest, with its kind or a user or without, then a colon. */
const REMOTE = /^((?:[^/:]+@)?(?:[a-z]+\/)?[a-z0-9][^/:@]*(?:\/[^/:]+)?):(.*)$/s;

/** scp would take `a:b` for a host, and `-a` for a flag. */
function localOf(path: string): string {
  return path.startsWith("/") || path.startsWith("./") || path.startsWith("../")
    ? path
    : `./${path}`;
}

/** @throws AppError with FLAG_INVALID unless exactly one of them is a guest's */
export function parseCopy(source: string, target: string): Copy {
  const [from, to] = [REMOTE.exec(source), REMOTE.exec(target)];
  if ((from === null) === (to === null)) {
    const reason = `one of ${source} and ${target} is to be a guest's: [user@]vm/NAME[/NAMESPACE]:PATH`;
    throw new AppError("FLAG_INVALID", { flag: "<source> <target>", reason });
  }
  const [, name = "", path = ""] = from ?? to ?? [];
  const local = localOf(from === null ? source : target);
  return { guest: parseGuestName(name), path, local, isToGuest: from === null };
}

/** Where this program and its connection come from. */
export interface Here {
  /** This program's own words. */
  readonly program: readonly string[];
  readonly global: Pick<GlobalOptions, "kubeconfig" | "dataDir">;
  readonly namespace: string;
}

/** For the shell by which the client starts it, and for the client itself, which makes something of `%`. */
function quoted(word: string): string {
  return `'${word.replaceAll("'", String.raw`'\''`).replaceAll("%", "%%")}'`;
}

function kindOf({ isVmi }: GuestName): string {
  return isVmi ? "vmi" : "vm";
}

/** What the client calls the guest's host: under this name it knows the host's key. */
export function hostOf(guest: GuestName, { namespace }: Here, input: Input): string {
  const user = guest.user ?? textOption(input, "username");
  const host = [kindOf(guest), guest.name, guest.namespace ?? namespace].join(".");
  return user === undefined ? host : `${checkUser(user)}@${host}`;
}

function proxyOf(guest: GuestName, { program, global, namespace }: Here, port: number): string {
  const { kubeconfig, dataDir } = global;
  const place = [kindOf(guest), guest.name, guest.namespace ?? namespace].join("/");
  const words = [
    ...program,
    "--data-dir",
    dataDir,
    ...(kubeconfig === undefined ? [] : ["--kubeconfig", kubeconfig]),
    "port-forward",
    "--stdio",
    place,
    String(port),
  ];
  return `ProxyCommand=${words.map(quoted).join(" ")}`;
}

/** The client's flags; what comes after them is no flag. */
export function clientFlags(guest: GuestName, here: Here, input: Input): readonly string[] {
  const identity = textOption(input, "identityFile");
  const known = textOption(input, "knownHosts");
  return [
    "-o",
    proxyOf(guest, here, numberOption(input, "port", 22)),
    ...(known === undefined ? [] : ["-o", `UserKnownHostsFile=${quotedSetting(known)}`]),
    ...listOption(input, "localSshOpts"),
    ...(identity === undefined ? [] : ["-i", identity]),
  ];
}

/** A file's name in a setting of the client. */
function quotedSetting(path: string): string {
  return `"${path.replaceAll(/["\\]/g, String.raw`\$&`).replaceAll("%", "%%")}"`;
}

/** This program, the connection that it would use, and the namespace. */
export async function hereOf(context: Context): Promise<Here> {
  const { global, environment } = context;
  const kubeconfig = await chooseKubeConfig(context, createFiles());
  const { namespace = "default" } = await loadKubeConfig({ kubeconfig });
  return {
    program: environment.program ?? ["patchbay"],
    global: { ...global, kubeconfig },
    namespace: global.namespace ?? namespace,
  };
}

/**
 * @throws ProgramEnded unless it ended well
 * @throws AppError with OS_PROGRAM_MISSING
 */
export async function runClient(argv: readonly [string, ...string[]]): Promise<void> {
  const code = await runInForeground(argv);
  if (code !== 0) throw new ProgramEnded(code);
}
