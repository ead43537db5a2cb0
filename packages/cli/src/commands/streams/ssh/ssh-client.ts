// SPDX-License-Identifier: Apache-2.0
// Arguments of ssh and scp for a guest behind the API server. Source: OpenSSH ssh_config(5), ProxyCommand; KubeVirt virtctl ssh.
import { AppError } from "@patchbay/base";
import { parseGuestName, type GuestName, checkUser } from "../guest-name.ts";
import type { GlobalOptions, Context } from "../../../command.ts";
import { listOption, numberOption, textOption, type Input } from "../../../input.ts";
import { loadKubeConfig } from "@patchbay/kube";
import { createFiles, runInForeground } from "@patchbay/os";
import { ProgramEnded } from "../../../program-ended.ts";
import { chooseKubeConfig } from "../../../session.ts";

interface Copy {
  readonly guest: GuestName;
  /** Path in the guest; empty for the user's home directory. */
  readonly path: string;
  /** Path on this machine, which scp does not mistake for a host or a flag. */
  readonly local: string;
  readonly isToGuest: boolean;
}

/** Pattern of a guest, optionally with a kind or a user, then a colon and the path. */
const REMOTE = /^((?:[^/:]+@)?(?:[a-z]+\/)?[a-z0-9][^/:@]*(?:\/[^/:]+)?):(.*)$/s;

/** Makes a path explicit, because scp would take `a:b` for a host and `-a` for a flag. */
function toLocalPath(path: string): string {
  return path.startsWith("/") || path.startsWith("./") || path.startsWith("../")
    ? path
    : `./${path}`;
}

/** Parses the arguments. @throws AppError with FLAG_INVALID unless exactly one path is in a guest */
export function parseCopy(source: string, target: string): Copy {
  const [from, to] = [REMOTE.exec(source), REMOTE.exec(target)];
  if ((from === null) === (to === null)) {
    const reason = `one of ${source} and ${target} is to be a guest's: [user@]vm/NAME[/NAMESPACE]:PATH`;
    throw new AppError("FLAG_INVALID", { flag: "<source> <target>", reason });
  }
  const [, name = "", path = ""] = from ?? to ?? [];
  const local = toLocalPath(from === null ? source : target);
  return { guest: parseGuestName(name), path, local, isToGuest: from === null };
}

export interface CallSettings {
  /** Command and arguments that start this program. */
  readonly program: readonly string[];
  readonly global: Pick<GlobalOptions, "kubeconfig" | "dataDir">;
  readonly namespace: string;
}

/** Quotes for the shell that starts the proxy, and for ssh, which expands `%`. */
function quoteWord(word: string): string {
  return `'${word.replaceAll("'", String.raw`'\''`).replaceAll("%", "%%")}'`;
}

function kindOf({ isVmi }: GuestName): string {
  return isVmi ? "vmi" : "vm";
}

/** Returns the name of the guest for ssh, which stores the guest's host key under it. */
export function guestHost(guest: GuestName, { namespace }: CallSettings, input: Input): string {
  const user = guest.user ?? textOption(input, "username");
  const host = [kindOf(guest), guest.name, guest.namespace ?? namespace].join(".");
  return user === undefined ? host : `${checkUser(user)}@${host}`;
}

function proxyOption(
  guest: GuestName,
  { program, global, namespace }: CallSettings,
  port: number,
): string {
  const { kubeconfig, dataDir } = global;
  const place = [kindOf(guest), guest.name, guest.namespace ?? namespace].join("/");
  const argv = [
    ...program,
    "--data-dir",
    dataDir,
    ...(kubeconfig === undefined ? [] : ["--kubeconfig", kubeconfig]),
    "port-forward",
    "--stdio",
    place,
    String(port),
  ];
  return `ProxyCommand=${argv.map(quoteWord).join(" ")}`;
}

export function clientFlags(
  guest: GuestName,
  callSettings: CallSettings,
  input: Input,
): readonly string[] {
  const identity = textOption(input, "identityFile");
  const known = textOption(input, "knownHosts");
  return [
    "-o",
    proxyOption(guest, callSettings, numberOption(input, "port", 22)),
    ...(known === undefined ? [] : ["-o", `UserKnownHostsFile=${quoteSetting(known)}`]),
    ...listOption(input, "localSshOpts"),
    ...(identity === undefined ? [] : ["-i", identity]),
  ];
}

function quoteSetting(path: string): string {
  return `"${path.replaceAll(/["\\]/g, String.raw`\$&`).replaceAll("%", "%%")}"`;
}

export async function readCallSettings(context: Context): Promise<CallSettings> {
  const { global, environment } = context;
  const kubeconfig = await chooseKubeConfig(context, createFiles());
  const { namespace = "default" } = await loadKubeConfig({ kubeconfig });
  return {
    program: environment.program ?? ["patchbay"],
    global: { ...global, kubeconfig },
    namespace: global.namespace ?? namespace,
  };
}

/** Runs the client. @throws ProgramEnded if its exit code is not 0 @throws AppError with OS_PROGRAM_MISSING */
export async function runClient(argv: readonly [string, ...string[]]): Promise<void> {
  const code = await runInForeground(argv);
  if (code !== 0) throw new ProgramEnded(code);
}
