// SPDX-License-Identifier: Apache-2.0
// With which words are OpenSSH's programs started, so that they reach a guest through the API server? Source: OpenSSH
// ssh_config(5), ProxyCommand; KubeVirt virtctl ssh.
import type { GlobalOptions } from "../../../command.ts";
import { listOption, numberOption, textOption, type Input } from "../../../input.ts";
import { checkUser, type GuestName } from "../guest-name.ts";

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
