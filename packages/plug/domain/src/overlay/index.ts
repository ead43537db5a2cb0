// SPDX-License-Identifier: Apache-2.0
// The door for those who have others change a domain.
export { readXml, writeXml, type XmlElement } from "./element.ts";
export { layOver } from "./lay-over.ts";
