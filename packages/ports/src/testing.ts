// SPDX-License-Identifier: Apache-2.0
// The second door of ports: fakes and contract suites.
export {};
