// SPDX-License-Identifier: Apache-2.0
// Generated user data and network data of cloud-init. Source: cloud-init, "Cloud config examples", "Networking config Version 2".
import { Document, stringify } from "yaml";
import { chooseMac, type RandomBytes } from "../nics/mac.ts";
import { ifaceNames, type NewVm } from "./objects.ts";

export interface Login {
  readonly user: string;
  readonly password: string;
}

/** First line of user data in the format cloud-config. Patchbay parses user data only in this format. */
export const CLOUD_CONFIG_HEADER = "#cloud-config";
export const KEYS_FIELD = "ssh_authorized_keys";
export const PUBLIC_KEY = /^(ssh|ecdsa|sk)-\S+ \S+/;
/** Characters of generated passwords. Ambiguous characters are excluded. */
const PASSWORD_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789";
const PASSWORD_BYTES = 16;
const GROUP_LENGTH = 4;

/** Creates a password that is easy to copy from a screen. Each random byte selects one of 31 characters. */
export function makePassword(randomBytes: RandomBytes): string {
  const random = randomBytes(PASSWORD_BYTES);
  const letters = [...random].map((byte) => PASSWORD_LETTERS[byte % PASSWORD_LETTERS.length] ?? "");
  const groups = letters.length / GROUP_LENGTH;
  return Array.from({ length: groups }, (_, group) =>
    letters.slice(group * GROUP_LENGTH, (group + 1) * GROUP_LENGTH).join(""),
  ).join("-");
}

export function printCloudConfig(document: Document): string {
  return `${CLOUD_CONFIG_HEADER}\n${document.toString({ lineWidth: 0, blockQuote: "literal" })}`;
}

/** Makes systemd-networkd use DHCP on plugged NICs. Files of netplan and cloud-init take precedence. Source: systemd.network(5). */
const HOTPLUG_NETWORK = {
  path: "/etc/systemd/network/90-plugged.network",
  content: [
    "[Match]",
    "Type=ether",
    "Name=en* eth*",
    "[Link]",
    "RequiredForOnline=no",
    "[Network]",
    "DHCP=ipv4",
    "[DHCPv4]",
    "RouteMetric=2048",
    "",
  ].join("\n"),
};
/** Command that makes systemd-networkd reload its files. Ignores failures, because guests with another network manager need no reload. */
const RELOAD_NETWORKS = ["sh", "-c", "networkctl reload || true"];

/** Returns the cloud-config fields for the login. If `login` is undefined, the SSH keys apply to the image's default user. */
function makeLogins(login: Login | undefined, keys: readonly string[]): object {
  const keyList = keys.length > 0 && { [KEYS_FIELD]: keys };
  if (login === undefined) return { ...keyList };
  const administrator = {
    name: login.user,
    plain_text_passwd: login.password,
    lock_passwd: false,
    shell: "/bin/bash",
    sudo: "ALL=(ALL) NOPASSWD:ALL",
    ...keyList,
  };
  return { users: [administrator] };
}

export function makeUserData(login: Login | undefined, keys: readonly string[]): string {
  return printCloudConfig(
    new Document({
      ...makeLogins(login, keys),
      write_files: [HOTPLUG_NETWORK],
      runcmd: [RELOAD_NETWORKS],
    }),
  );
}

interface NewNic {
  readonly name: string;
  readonly mac: string;
}

/** Metric of secondary NICs' default routes. The pod network's route has networkd's lower default of 1024, so it takes precedence. */
const ROUTE_METRIC = 2048;

/** Creates network data with DHCP on every NIC. Matches NICs by MAC, because their names depend on the guest's operating system. */
function makeNetworkData(nics: readonly NewNic[]): string {
  const ethernets = nics.map(({ name, mac }, index) => {
    const isFirst = index === 0;
    const secondary = { optional: true, "dhcp4-overrides": { "route-metric": ROUTE_METRIC } };
    return [name, { match: { macaddress: mac }, dhcp4: true, ...(!isFirst && secondary) }] as const;
  });
  return stringify({ version: 2, ethernets: Object.fromEntries(ethernets) });
}

/** Returns a MAC for every interface: the assigned MAC, or else a random MAC. */
function withNewMacs(
  names: readonly string[],
  assigned: ReadonlyMap<string, string>,
  randomBytes: RandomBytes,
): ReadonlyMap<string, string> {
  const macs = new Map(assigned);
  for (const name of names) {
    const used = new Set(macs.values());
    macs.set(name, macs.get(name) ?? chooseMac(used, randomBytes));
  }
  return macs;
}

/** Assigns MACs and creates network data if there are several NICs, because cloud-init configures only the first NIC by default. */
export function makeNetwork(
  networks: readonly string[],
  assigned: ReadonlyMap<string, string>,
  randomBytes: RandomBytes,
): Pick<NewVm, "networks" | "macs" | "networkData"> {
  const names = ifaceNames({ networks });
  if (names.length === 1) return { networks, macs: assigned };
  const macs = withNewMacs(names, assigned, randomBytes);
  const nics = names.map((name) => ({ name, mac: macs.get(name) ?? "" }));
  return { networks, macs, networkData: makeNetworkData(nics) };
}
