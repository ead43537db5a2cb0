// SPDX-License-Identifier: Apache-2.0
// Which options may a guest be told by DHCP? Source: KubeVirt pkg/network/admitter/netiface.go.
import type { DhcpOptions } from "../../kinds/guest/dhcp-options.ts";
import type { Cause } from "../../kinds/kubernetes/meta.ts";
import { parseSloppyIp } from "../../values/ip.ts";
import { causeIf, forEachIface, type Rule } from "../rule.ts";

/** Options for private use that KubeVirt knows. Source: KubeVirt api/core/v1 schema.go, DHCPPrivateOptions. */
const [PRIVATE_FIRST, PRIVATE_LAST] = [224, 254];
/** Longest value of an option. Source: RFC 2132 section 2 */
const VALUE_MAX = 255;
/** IPv4 addresses that fit into one option. */
const NTP_SERVERS_MAX = Math.floor(VALUE_MAX / 4);
/** One word of printable characters, which is not two. */
const WORD = /^[!-+\--~]{1,127}$/;

function invalid(isWrong: boolean, field: string, message: string): readonly Cause[] {
  return causeIf(isWrong, { reason: "FieldValueInvalid", field, message });
}

function isIpv4(text: string): boolean {
  const ip = parseSloppyIp(text);
  return ip?.version === 4 && !text.includes("/");
}

/** Bytes. */
function utf8LengthOf(text: string): number {
  return encodeURIComponent(text.toWellFormed()).replaceAll(/%../g, "x").length;
}

function privateCauses({ privateOptions = [] }: DhcpOptions, path: string): readonly Cause[] {
  const numbers = privateOptions.map(({ option }) => option);
  return privateOptions.flatMap(({ option, value }, index) => {
    const field = `${path}.privateOptions[${String(index)}]`;
    const bytes = utf8LengthOf(value);
    return [
      ...invalid(
        numbers.indexOf(option) !== index,
        `${field}.option`,
        `Found Duplicates: you have provided duplicate DHCPPrivateOptions, ${String(option)}`,
      ),
      ...invalid(
        option < PRIVATE_FIRST || option > PRIVATE_LAST,
        `${field}.option`,
        `provided DHCPPrivateOptions are out of range, must be in range ${String(PRIVATE_FIRST)} to ${String(PRIVATE_LAST)}`,
      ),
      ...invalid(
        bytes === 0 || bytes > VALUE_MAX,
        `${field}.value`,
        `must be 1 to ${String(VALUE_MAX)} bytes`,
      ),
    ];
  });
}

function wordCauses(options: DhcpOptions, path: string): readonly Cause[] {
  return (["bootFileName", "tftpServerName"] as const).flatMap((name) => {
    const word = options[name] ?? "";
    return invalid(
      word !== "" && !WORD.test(word),
      `${path}.${name}`,
      "must be at most 127 printable ASCII characters without blank and comma",
    );
  });
}

const optionsAreWhole = forEachIface((iface, path) => {
  const options = iface.dhcpOptions ?? {};
  const at = `${path}.dhcpOptions`;
  return [
    ...privateCauses(options, at),
    ...invalid(
      (options.ntpServers ?? []).length > NTP_SERVERS_MAX,
      `${at}.ntpServers`,
      `must have at most ${String(NTP_SERVERS_MAX)} addresses, which is what a DHCP option holds`,
    ),
    ...(options.ntpServers ?? []).flatMap((server, index) =>
      invalid(
        !isIpv4(server),
        `${at}.ntpServers[${String(index)}]`,
        "NTP servers must be a list of valid IPv4 addresses.",
      ),
    ),
    ...wordCauses(options, at),
  ];
});

/** Judges the options of DHCP of each iface. */
export const DHCP_OPTION_RULES: readonly Rule[] = [optionsAreWhole];
