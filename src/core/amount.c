/* SPDX-License-Identifier: MIT
 *
 * Printing an exact amount: as a decimal where that is exact, otherwise as a fraction. */
#include <string.h>

#include "core/arith.h"
#include "weir/decision.h"

/* Writes the decimal digits of `value` at `text`; returns how many. */
static int print_digits(uint128 value, char *text)
{
    char reversed[40];
    int count = 0;
    do {
        reversed[count++] = (char)('0' + (int)(value % 10));
        value /= 10;
    } while (value != 0);
    for (int i = 0; i < count; i++) {
        text[i] = reversed[count - 1 - i];
    }
    return count;
}

/* How many decimal places 1/denominator needs: -1 if more than the maximum or endlessly many. */
static int decimal_places(uint128 denominator)
{
    int twos = 0;
    int fives = 0;
    for (; denominator % 2 == 0; denominator /= 2) {
        twos++;
    }
    for (; denominator % 5 == 0; denominator /= 5) {
        fives++;
    }
    int places = twos > fives ? twos : fives;
    return denominator == 1 && places <= WEIR_AMOUNT_DECIMALS_MAX ? places : -1;
}

int weir_amount_print(const struct weir_amount *amount, char text[WEIR_AMOUNT_TEXT_MAX])
{
    uint128 numerator = (uint128)amount->numerator_high << 64 | amount->numerator_low;
    uint128 denominator = (uint128)amount->denominator_high << 64 | amount->denominator_low;
    if (denominator == 0) { // a zeroed amount: not from weir, but harmless
        denominator = 1;
    }
    uint128 common = gcd128(numerator, denominator);
    numerator /= common;
    denominator /= common;
    int places = decimal_places(denominator);
    int length;
    if (places < 0) {
        length = print_digits(numerator, text);
        text[length++] = '/';
        length += print_digits(denominator, text + length);
    } else {
        length = print_digits(numerator / denominator, text);
        uint128 rest = numerator % denominator;
        text[length] = '.';
        length += places > 0;
        for (int i = 0; i < places; i++) { // rest < denominator <= 10^18: no overflow
            rest *= 10;
            text[length++] = (char)('0' + (int)(rest / denominator));
            rest %= denominator;
        }
    }
    text[length] = '\0';
    return length;
}
