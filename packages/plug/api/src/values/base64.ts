// SPDX-License-Identifier: Apache-2.0
// How many bytes base64 stands for. Source: RFC 4648 section 4.

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const LINE_BREAKS = /[\r\n]/g;

/** Bytes that the text stands for, line breaks left out; undefined when it is no base64. */
export function base64Length(text: string): number | undefined {
  const line = text.replaceAll(LINE_BREAKS, "");
  if (!BASE64.test(line)) return undefined;
  const padding = line.endsWith("==") ? 2 : Number(line.endsWith("="));
  return (line.length / 4) * 3 - padding;
}
