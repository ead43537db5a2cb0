// SPDX-License-Identifier: Apache-2.0
// Arguments of ssh and scp for a guest behind the API server. Source: OpenSSH ssh_config(5), ProxyCommand; KubeVirt virtctl ssh.
import { AppError } from "@patchbay/base";
import { parseGuestName, type GuestName, checkUser } from "../guest-name.ts";
import { ProgramEnded, type Context, type GlobalOptions } from "../../../command.ts";
import { listOption, numberOption, textOption, type Input } from "../../../input.ts";
import { loadKubeConfig } from "@patchbay/kube";
import { createFiles, runInForeground } from "@patchbay/os";
import { chooseKubeConfig } from "../../../session.ts";

interface Copy {
  readonly guest: GuestName;
  /** Path in the guest; empty for the user's home directory. */
  readonly path: string;
  /** Path on this machine in a form that scp does not interpret as a host or a flag. */
  readonly localPath: string;
  readonly isToGuest: boolean;
}

/** Pattern of a guest, with an optional kind and user, followed by a colon and a path. */
const REMOTE = /^((?:[^/:]+@)?(?:[a-z]+\/)?[a-z0-9][^/:@]*(?:\/[^/:]+)?):(.*)$/s;

/** Prefixes relative paths with `./`, because scp would interpret `a:b` as a host and `-a` as a flag. */
function toLocalPath(path: string): string {
  return path.startsWith("/") || path.startsWith("./") || path.startsWith("../")
    ? path
    : `./${path}`;
}

/** Parses the paths of a copy. @throws AppError with FLAG_INVALID unless exactly one path is in a guest */
export function parseCopy(source: string, target: string): Copy {
  const [from, to] = [REMOTE.exec(source), REMOTE.exec(target)];
  if ((from === null) === (to === null)) {
    const reason = `one of ${source} and ${target} is to be a guest's: [user@]vm/NAME[/NAMESPACE]:PATH`;
    throw new AppError("FLAG_INVALID", { flag: "<source> <target>", reason });
  }
  const [, name = "", path = ""] = from ?? to ?? [];
  const localPath = toLocalPath(from === null ? source : target);
  return { guest: parseGuestName(name), path, localPath, isToGuest: from === null };
}

export interface CallSettings {
  /** Command and arguments that start this program. ssh runs them as its ProxyCommand. */
  readonly program: readonly string[];
  readonly global: Pick<GlobalOptions, "kubeconfig" | "dataDir">;
  readonly namespace: string;
}

/** Quotes a word for the shell that starts the proxy, and escapes `%` for ssh. */
function quoteWord(word: string): string {
  return `'${word.replaceAll("'", String.raw`'\''`).replaceAll("%", "%%")}'`;
}

function kindOf({ isVmi }: GuestName): string {
  return isVmi ? "vmi" : "vm";
}

/** Returns the ssh destination `[user@]host`. ssh stores the guest's host key under the name `host`. */
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
  const guestPath = [kindOf(guest), guest.name, guest.namespace ?? namespace].join("/");
  const argv = [
    ...program,
    "--data-dir",
    dataDir,
    ...(kubeconfig === undefined ? [] : ["--kubeconfig", kubeconfig]),
    "port-forward",
    "--stdio",
    guestPath,
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
  const knownHosts = textOption(input, "knownHosts");
  return [
    "-o",
    proxyOption(guest, callSettings, numberOption(input, "port", 22)),
    ...(knownHosts === undefined ? [] : ["-o", `UserKnownHostsFile=${quoteSetting(knownHosts)}`]),
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

/** Runs ssh or scp. @throws ProgramEnded if the exit code is not 0 @throws AppError with OS_PROGRAM_MISSING */
export async function runClient(
  { environment }: Pick<Context, "environment">,
  argv: readonly [string, ...string[]],
): Promise<void> {
  const code = await runInForeground(argv, environment.callersUmask);
  if (code !== 0) throw new ProgramEnded(code);
}
