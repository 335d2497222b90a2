//! From TOML to any type that serde knows, with the place of whatever is wrong.

use std::fmt;
use std::ops::Range;

use serde::de::value::SeqDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What is wrong, and where in the text.
#[derive(Debug)]
pub(crate) struct Located {
    pub(crate) problem: String,
    pub(crate) place: Option<Range<usize>>,
}

impl Located {
    /// The same, at this place unless a closer one is known.
    fn at(mut self, place: Range<usize>) -> Self {
        self.place.get_or_insert(place);
        self
    }
}

impl fmt::Display for Located {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for Located {}

impl Error for Located {
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self { problem: problem.to_string(), place: None }
    }
}

/// Reads a value of any type.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, Located> {
    let table = DeTable::parse(text)
        .map_err(|error| Located { problem: error.message().to_owned(), place: error.span() })?;
    T::deserialize(Table(table.get_ref()))
}

/// A key, and its place.
struct Key<'a>(&'a str, Range<usize>);

/// A value.
struct Value<'a>(&'a Spanned<DeValue<'a>>);

/// A table: the whole text, or a value of it.
struct Table<'a>(&'a DeTable<'a>);

/// What is left of a table while it is read.
struct Entries<'a, I> {
    rest: I,
    /// Of the key that was read last.
    value: Option<Value<'a>>,
}

impl<'de, I: Iterator<Item = (Key<'de>, Value<'de>)>> MapAccess<'de> for Entries<'de, I> {
    type Error = Located;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Located> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Located> {
        let value = self.value.take().ok_or_else(|| Located::custom("a value without a key"))?;
        let place = value.0.span();
        // What a type makes of a value that was read well may be wrong all the same.
        seed.deserialize(value).map_err(|error| error.at(place))
    }
}

impl<'de> Deserializer<'de> for Table<'de> {
    type Error = Located;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Located> {
        let entry = |(key, value): (&'de Spanned<_>, &'de Spanned<DeValue<'de>>)| {
            (Key(AsRef::<str>::as_ref(key.get_ref()), key.span()), Value(value))
        };
        visitor.visit_map(Entries { rest: self.0.iter().map(entry), value: None })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> Deserializer<'de> for Key<'de> {
    type Error = Located;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Located> {
        visitor.visit_str(self.0).map_err(|error: Located| error.at(self.1))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = Located;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Located> {
        let place = self.0.span();
        let wrong = |what: &str| Located::custom(format!("`{what}` is no number that can be used here"));
        let result = match self.0.get_ref() {
            DeValue::String(text) => visitor.visit_str(text),
            DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                // Where a number with a point is expected, too.
                Ok(value) => visitor.visit_i64(value),
                Err(_) => Err(wrong(number.as_str())),
            },
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(value) => visitor.visit_f64(value),
                Err(_) => Err(wrong(number.as_str())),
            },
            DeValue::Boolean(value) => visitor.visit_bool(*value),
            DeValue::Datetime(_) => Err(Located::custom("a date means nothing here")),
            DeValue::Array(values) => visitor.visit_seq(SeqDeserializer::new(values.iter().map(Value))),
            DeValue::Table(table) => Table(table).deserialize_any(visitor),
        };
        result.map_err(|error| error.at(place))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Located> {
        visitor.visit_some(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Located> {
        let place = self.0.span();
        let DeValue::String(text) = self.0.get_ref() else {
            return Err(Located::custom(format!("expected one of {}", variants.join(", "))).at(place));
        };
        let text: &str = text;
        let word: serde::de::value::StrDeserializer<'_, Located> = text.into_deserializer();
        word.deserialize_enum(name, variants, visitor).map_err(|error| error.at(place))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, Located> for Value<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
